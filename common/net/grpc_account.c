#include "common/net/grpc_account.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/cert.h"
#include "common/net/transport.h"

enum {
    PARTS = 4,
};

static bool is_user(const struct transport_peer *peer)
{
    return peer->tls ? peer->tls->kind == CERT_USER : !peer->local || peer->uid != 0;
}

static bool is_of(const struct grpc_account *account, const struct transport_peer *peer)
{
    if (peer->tls)
        return account->kind == peer->tls->kind && strcmp(account->name, peer->tls->name) == 0;
    return account->kind == 0 && account->local == peer->local && account->uid == peer->uid;
}

void grpc_accounts_init(struct grpc_accounts *accounts, unsigned connections_max,
                        struct grpc_budget *all)
{
    *accounts = (struct grpc_accounts){.connections_max = connections_max, .all = all};
    accounts->users = (struct grpc_budget){.limit = all->limit - all->limit / PARTS, .above = all};
    LIST_INIT(&accounts->list);
}

static struct grpc_account *account_new(struct grpc_accounts *accounts,
                                        const struct transport_peer *peer)
{
    struct grpc_account *account = calloc(1, sizeof *account);

    if (!account)
        return NULL;
    account->user = is_user(peer);
    account->held.limit = accounts->all->limit / PARTS;
    account->held.above = account->user ? &accounts->users : accounts->all;
    account->local = peer->local;
    account->uid = peer->uid;
    if (peer->tls) {
        account->kind = peer->tls->kind;
        account->name = strdup(peer->tls->name);
        if (!account->name) {
            free(account);
            return NULL;
        }
    }
    LIST_INSERT_HEAD(&accounts->list, account, link);
    return account;
}

struct grpc_account *grpc_account_ref(struct grpc_accounts *accounts,
                                      const struct transport_peer *peer)
{
    struct grpc_account *account;

    LIST_FOREACH(account, &accounts->list, link)
    if (is_of(account, peer))
        break;
    if (!account)
        account = account_new(accounts, peer);
    if (account)
        account->n_refs++;
    return account;
}

void grpc_account_unref(struct grpc_account *account)
{
    if (!account || --account->n_refs > 0)
        return;
    assert(account->n_connections == 0 && account->held.bytes == 0);
    LIST_REMOVE(account, link);
    free(account->name);
    free(account);
}

bool grpc_account_has_room(const struct grpc_accounts *accounts, const struct grpc_account *account)
{
    unsigned all = accounts->connections_max;

    if (accounts->n_connections >= all)
        return false;
    return !account->user || (accounts->n_users < all - all / PARTS &&
                              account->n_connections < (all + PARTS - 1) / PARTS);
}

void grpc_account_connected(struct grpc_accounts *accounts, struct grpc_account *account)
{
    account->n_connections++;
    accounts->n_connections++;
    accounts->n_users += account->user;
}

void grpc_account_lost(struct grpc_accounts *accounts, struct grpc_account *account)
{
    account->n_connections--;
    accounts->n_connections--;
    accounts->n_users -= account->user;
}
