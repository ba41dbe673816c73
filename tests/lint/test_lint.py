#!/usr/bin/env python3
"""Each rule of lint.py finds its violation, and says nothing about a tidy tree."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import lint
import rules

TIDY_HEADER = '''/* What it is. */
#ifndef XCE_MAP_A_H
#define XCE_MAP_A_H

#include <stddef.h>

#include "xce/map.h"

struct a;

/* Make one. */
int a_new(struct a **ret);
void a_free(struct a *a);

#endif
'''
TIDY_SOURCE = '''#include "map/a.h"

#include <stdlib.h>
#include <string.h>

#include "xce/limits.h"

typedef void (*a_fn)(void *arg);

/* system("x") in a comment is no call. */
int a_new(struct a **ret)
{
    *ret = (struct a *)"strcpy(a, b)";
    return my_system(ret);
}
'''
TIDY = {'map/a.h': TIDY_HEADER, 'map/a.c': TIDY_SOURCE}


class Tree(unittest.TestCase):
    def findings(self, files):
        """Findings of a throwaway tree with these files (path -> text): a list of "path:line: rule"."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), 'w', encoding='utf-8') as f:
                    f.write(text)
            return [f'{path}:{line}: {rule}' for path, line, rule, _ in lint.check_tree(root)]

    def assert_found(self, files, *wanted):
        self.assertEqual(self.findings(files), sorted(wanted))

    def test_tidy_tree(self):
        self.assert_found(TIDY)


class Includes(Tree):
    def test_upward(self):
        self.assert_found({'common/a.c': '#include "leased/fsm/fsm.h"\n'}, 'common/a.c:1: tier')

    def test_sideways(self):
        self.assert_found({'leased/rbac/a.c': '#include "leased/fsm/fsm.h"\n'}, 'leased/rbac/a.c:1: tier')
        self.assert_found({'noded/state.c': '#include "noded/sweep/sweep.h"\n'}, 'noded/state.c:1: tier')

    def test_down(self):
        self.assert_found({'leased/engine/a.c': '#include "leased/fsm/fsm.h"\n', 'noded/session.c': '#include "noded/state.h"\n'})

    def test_single_header_allowed(self):
        self.assert_found({'leased/history/a.c': '#include "leased/fsm/change.h"\n'})
        self.assert_found({'leased/history/a.c': '#include "leased/fsm/fsm.h"\n'}, 'leased/history/a.c:1: tier')
        self.assert_found({'leased/fsm/a.c': '#include "map/name.h"\n'})
        self.assert_found({'leased/fsm/a.c': '#include "map/read.h"\n'}, 'leased/fsm/a.c:1: tier')

    def test_pure_code_reaches_no_socket(self):
        self.assert_found({'leased/fsm/a.c': '#include "common/net/loop.h"\n'}, 'leased/fsm/a.c:1: tier')
        self.assert_found({'leased/service/a.c': '#include "common/net/grpc.h"\n'}, 'leased/service/a.c:1: tier')
        self.assert_found({'leased/history/a.c': '#include "common/net/loop.h"\n'})
        self.assert_found({'leased/history/a.c': '#include "common/net/grpc.h"\n'}, 'leased/history/a.c:1: tier')

    def test_guest_uses_map_alone(self):
        self.assert_found({'nss_xce/a.c': '#include "common/buf.h"\n'}, 'nss_xce/a.c:1: tier')

    def test_generated_code(self):
        self.assert_found({'leased/fsm/a.c': '#include "xce/v1/command.pb-c.h"\n'})
        self.assert_found({'map/a.c': '#include "xce/v1/command.pb-c.h"\n'}, 'map/a.c:1: tier')

    def test_file_without_tier(self):
        self.assert_found({'noded/stray.c': '#include <errno.h>\n'}, 'noded/stray.c:1: tier')

    def test_path_that_does_not_start_at_the_root(self):
        self.assert_found({'common/a.c': '#include "buf.h"\n'}, 'common/a.c:1: tier')

    def test_commented_out(self):
        self.assert_found({'common/a.c': '/*\n#include "leased/fsm/fsm.h"\n*/\n'})

    def test_tests_may_include_all(self):
        self.assert_found({'tests/unit/a.c': '#include <cmocka.h>\n#include "leased/rpc/a.h"\n#include "common/a.c"\n'})

    def test_table_points_down_only(self):
        tiers = {module: tier for tier, module, _ in rules.TIERS}
        for tier, module, allowed in rules.TIERS:
            for entry in allowed:
                if entry in ('leased', 'noded'):  # the program's own folders, all of which stand below
                    below = [t for m, t in tiers.items() if m.startswith(entry + '/') and t < tier]
                    self.assertTrue(below)
                    continue
                row = lint.module_of(entry) if entry not in tiers else (tiers[entry], entry, None)
                self.assertIsNotNone(row, f'{module}: {entry} is no module')
                self.assertLess(row[0], tier, f'{module} (tier {tier}) may not be given {entry} (tier {row[0]})')

    def test_program_includes_only_below_itself(self):
        self.assert_found({'leased/server.c': '#include "leased/rpc/listener.h"\n'})
        self.assert_found({'leased/server.c': '#include "leased/main.h"\n'}, 'leased/server.c:1: tier')

    def test_cycle(self):
        head = '/* What. */\n#ifndef XCE_H\n#define XCE_H\n#include "{}"\n#endif\n'
        self.assert_found({'common/a.h': head.format('common/b.h'), 'common/b.h': head.format('common/a.h')},
                          'common/b.h:4: cycle')

    def test_cycle_over_three(self):
        head = '/* What. */\n#ifndef XCE_H\n#define XCE_H\n#include "{}"\n#endif\n'
        self.assert_found({f'common/{a}.h': head.format(f'common/{b}.h') for a, b in ('ab', 'bc', 'ca')},
                          'common/c.h:4: cycle')

    def test_own_header_first(self):
        self.assert_found(dict(TIDY, **{'map/a.c': '#include <errno.h>\n#include "map/a.h"\n'}), 'map/a.c:1: own-header')
        self.assert_found(dict(TIDY, **{'map/a.c': 'int a;\n'}), 'map/a.c:1: own-header')

    def test_order(self):
        self.assert_found({'common/a.c': '#include <stdlib.h>\n#include <errno.h>\n'}, 'common/a.c:2: include-order')
        self.assert_found({'common/a.c': '#include <errno.h>\n#include "common/b.h"\n#include <stdlib.h>\n'},
                          'common/a.c:3: include-order')
        self.assert_found({'common/a.c': '#include <stdlib.h>\n\n#include <errno.h>\n#include "common/b.h"\n'})


class Homes(Tree):
    def test_away_from_home(self):
        self.assert_found({'leased/fsm/a.c': '#include <sqlite3.h>\n'}, 'leased/fsm/a.c:1: home')
        self.assert_found({'common/net/grpc.c': '#include <nghttp2/nghttp2.h>\n'}, 'common/net/grpc.c:1: home')
        self.assert_found({'common/a.c': '#include <cmocka.h>\n'}, 'common/a.c:1: home')

    def test_at_home(self):
        self.assert_found({'common/net/h2_client.c': '#include <nghttp2/nghttp2.h>\n', 'leased/history/a.c': '#include <sqlite3.h>\n',
                           'noded/unit/bus.c': '#include <systemd/sd-bus.h>\n'})

    def test_unknown_library(self):
        self.assert_found({'common/a.c': '#include <curl/curl.h>\n'}, 'common/a.c:1: home')


class Sizes(Tree):
    def test_long_file(self):
        self.assert_found({'common/a.c': '\n' * 1200})
        self.assert_found({'common/a.c': '\n' * 1201}, 'common/a.c:1201: file-size')
        head = '/* What. */\n#ifndef XCE_A_H\n#define XCE_A_H\n#endif\n'
        self.assert_found({'common/a.h': head + '\n' * 397}, 'common/a.h:401: file-size')

    def test_long_function(self):
        def function(lines, above=''):
            return {'common/a.c': f'{above}\nint f(void)\n{{\n' + '    g();\n' * (lines - 3) + '}\n'}

        line = 'common/a.c:2: function-size'
        self.assert_found(function(100))
        self.assert_found(function(101), line)
        self.assert_found(function(101, '/* Verbs. lint: flat (one case a verb) */'))
        self.assert_found(function(101, '/* lint: flat () */'), line)
        self.assert_found(function(101, '/* lint: flat (not mine) */\n'), 'common/a.c:3: function-size')
        self.assert_found({p.replace('common', 'tests/unit'): t for p, t in function(101).items()},
                          'tests/unit/a.c:2: function-size')

    def test_parameters(self):
        def function(n):
            return {'common/a.c': 'int f(int (*fn)(int, int), ' + ', '.join(f'int a{i}' for i in range(n - 1)) + ')\n{\n}\n'}

        self.assert_found(function(7))
        self.assert_found(function(8), 'common/a.c:1: parameters')

    def test_nesting(self):
        def function(n):
            return {'common/a.c': 'int f(void)\n{\n' + 'if (a) {\n' * n + '}\n' * n + '}\n'}

        self.assert_found(function(4))
        self.assert_found(function(5), 'common/a.c:7: nesting')

    def test_initialisers_do_not_nest(self):
        self.assert_found({'common/a.c': 'int f(void)\n{\nif (a) {\nwhile (b) {\nfor (;;) {\nstruct x y = {.a = {.b = {1}}};\n'
                                         'g((struct x){.a = {1}});\ndo {\n} while (0);\n}\n}\n}\n}\n'})


class Headers(Tree):
    def test_no_comment_at_the_top(self):
        self.assert_found({'map/a.h': TIDY_HEADER.replace('/* What it is. */\n', '')}, 'map/a.h:1: header-comment')

    def test_bare_prototype(self):
        self.assert_found({'map/a.h': TIDY_HEADER.replace('/* Make one. */\n', '')},
                          'map/a.h:11: header-comment', 'map/a.h:12: header-comment')

    def test_heading_is_no_comment(self):
        self.assert_found({'map/a.h': TIDY_HEADER.replace('one. */\n', 'one. */\n\n')},
                          'map/a.h:13: header-comment', 'map/a.h:14: header-comment')

    def test_guard(self):
        self.assert_found({'common/a.h': '/* What. */\n#pragma once\nint a;\n'}, 'common/a.h:1: guard')

    def test_typedef(self):
        self.assert_found({'common/a.c': 'typedef struct a b;\n'}, 'common/a.c:1: typedef')
        self.assert_found({'common/a.c': 'typedef int (*a_fn)(int a,\n    int b);\n'})


class Calls(Tree):
    def test_each_forbidden_call(self):
        for name in rules.FORBIDDEN:
            with self.subTest(name):
                text = f'int f(void)\n{{\n    {name}(x);\n}}\n'
                self.assert_found({'common/a.c': text}, 'common/a.c:3: call')
                in_tests = [] if name in rules.FORBIDDEN_NOT_IN_TESTS else ['tests/unit/a.c:3: call']
                self.assert_found({'tests/unit/a.c': text}, *in_tests)

    def test_forbidden_in_a_folder(self):
        self.assert_found({'leased/fsm/a.c': 'int a = time(NULL);\n'}, 'leased/fsm/a.c:1: call')
        self.assert_found({'nss_xce/a.c': 'void *a = malloc(1);\n'}, 'nss_xce/a.c:1: call')
        self.assert_found({'common/a.c': 'int a = time(NULL);\n'})

    def test_not_a_call(self):
        self.assert_found({'common/a.c': 'int a = my_strcpy(x) + b->system(y) + c.rand(1);\nchar *s = "strcpy(";  // gets(\n'})


class Paths(Tree):
    def test_machine_path(self):
        path = '/wor' + 'k/x'
        self.assert_found({'docs/a.md': f'one\nsee {path}\n'}, 'docs/a.md:2: machine-path')
        self.assert_found({'build-x/a.md': path, '.git/a': path})

    def test_build_folder_is_not_read(self):
        self.assert_found({'build/common/a.c': 'int a = system("x");\n'})


class Documents(Tree):
    ONE = {'docs/decisions/0001-a-thing.md': '# 1. A thing\n'}

    def test_two_decisions_of_a_number(self):
        self.assert_found({**self.ONE, 'docs/decisions/0001-b-thing.md': '# 1. B thing\n'},
                          'docs/decisions/0001-b-thing.md:1: decision')

    def test_another_number_in_the_heading(self):
        self.assert_found({'docs/decisions/0001-a-thing.md': '# 2. A thing\n'},
                          'docs/decisions/0001-a-thing.md:1: decision')

    def test_links(self):
        self.assert_found({**self.ONE, 'docs/x.md': '[here](decisions/0001-a-thing.md#why) [there](y.md)\n[web](https://a.b/c)\n',
                           'map/b.c': '/* docs/decisions/0001 */\n/* Decision 2: why. */\n'},
                          'docs/x.md:1: link', 'map/b.c:2: link')


class Format(unittest.TestCase):
    def run_on(self, text):
        here = os.path.dirname(os.path.abspath(__file__))
        with tempfile.TemporaryDirectory() as root:
            shutil.copy(os.path.join(here, '..', '..', '.clang-format'), root)
            with open(os.path.join(root, 'a.c'), 'w', encoding='utf-8') as f:
                f.write(text)
            return subprocess.run([os.path.join(here, 'format.sh'), root], capture_output=True).returncode

    def test_format(self):
        tidy = self.run_on('int a(void)\n{\n    return 1;\n}\n')
        if tidy == 77:
            self.skipTest('no clang-format 14')
        self.assertEqual(tidy, 0)
        self.assertNotEqual(self.run_on('int a(void) {\n  return 1;\n}\n'), 0)


if __name__ == '__main__':
    unittest.main()
