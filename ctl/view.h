/* Leases, pools and nodes as tables and as JSON: the one place that knows the schema of docs/cli-json.md. */
#ifndef XCE_CTL_VIEW_H
#define XCE_CTL_VIEW_H

#include "ctl/output.h"
#include "xce/client.h"

struct ctl;
struct json;

extern const struct output_table view_leases, view_pools, view_nodes;

struct json *view_lease_json(const struct xce_lease *lease);
struct json *view_pool_json(const struct xce_pool *pool);
struct json *view_node_json(const struct xce_node *node);

/* One object: JSON if asked for, else a table of one row. An exit status. */
int view_lease(struct ctl *ctl, const struct xce_lease *lease);
int view_pool(struct ctl *ctl, const struct xce_pool *pool);
int view_node(struct ctl *ctl, const struct xce_node *node);

/* Releases that were handed to noded. With many: a list, also of one. An exit status. */
extern const struct output_table view_deferred;
int view_deferreds(struct ctl *ctl, const struct xce_deferred *rows, size_t n, bool many);

/* What a change was answered with: the object, which is freed, or code, which says why there is none. An exit status. */
int view_lease_changed(struct ctl *ctl, int code, struct xce_lease *lease);
int view_pool_changed(struct ctl *ctl, int code, struct xce_pool *pool);
int view_cluster_changed(struct ctl *ctl, int code, struct xce_cluster *cluster);

/* Rules: JSON if asked for, else as the file that rbac apply reads. An exit status. */
int view_rules(struct ctl *ctl, const struct xce_rules *rules);
struct json *view_role_json(const struct xce_role *role);

/* The replicas: JSON if asked for, else a table of them. An exit status. */
extern const struct output_table view_replicas;
int view_cluster(struct ctl *ctl, const struct xce_cluster *cluster);

/* Pieces of tables. Time: RFC 3339, nothing for 0. */
void view_time(struct buf *buf, int64_t wall_ms);
/* When who leads heard of the node last, or since when it has not; whether it has. */
bool view_heard(struct buf *buf, const struct xce_node *node);
struct json *view_strings_json(const char *const *items, size_t n);
struct json *view_owner_json(const struct xce_owner *owner);
void view_strings(struct buf *buf, const char *const *items, size_t n);

#endif
