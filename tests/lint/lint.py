#!/usr/bin/env python3
"""Check the tree against tests/lint/rules.py.

usage: lint.py ROOT

Prints one finding a line, "file:line: rule: what", and exits 1 if there is any.
"""
import bisect
import fnmatch
import json
import os
import re
import subprocess
import sys

import rules

CODE_ROOTS = sorted({module.split('/')[0] for _, module, _ in rules.TIERS} - {'proto'}) + ['tests']
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)


class Source:
    """One C file: its text, its text without comments and literals (same offsets), its includes."""

    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), encoding='utf-8', errors='replace') as f:
            self.text = f.read()
        self.lines = self.text.split('\n')
        self.code = blank(self.text)
        self.is_header = path.endswith('.h')
        self.is_test = path.startswith('tests/')
        self._starts = [0] + [m.end() for m in re.finditer('\n', self.text)]
        # Quotes of an include line are blanked in code; a commented-out include is not one.
        bare = blank(self.text, literals=False)
        self.includes = [(self.line_of(m.start()), m[1] == '<', m[2]) for m in INCLUDE.finditer(bare)]

    def line_of(self, offset):
        return bisect.bisect_right(self._starts, offset)


_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(text, literals=True):
    """text with comments (and the inside of literals) replaced by spaces; line ends stay."""

    def spaces(m):
        s = m[0]
        if s[0] in '"\'':
            return s[0] + ' ' * (len(s) - 2) + s[0] if literals else s
        return re.sub(r'[^\n]', ' ', s)

    return _LITERAL.sub(spaces, text)


def module_of(path):
    """The tier row that a file belongs to, or None."""
    best = None
    for row in rules.TIERS:
        name = row[1]
        if re.match(re.escape(name) + r'([/._]|$)', path) and (best is None or len(name) > len(best[1])):
            best = row
    return best


def target_of(name):
    """The path that an include with quotes means in the tier table."""
    if name.endswith('.pb-c.h'):
        return 'proto/' + name
    if name.startswith('xce/'):
        return 'include/' + name
    return name


def covers(entry, target):
    return target == entry or re.match(re.escape(entry) + r'[/._]', target) is not None


def check_tiers(src):
    row = module_of(src.path)
    if row is None:
        yield 1, 'tier', 'no tier is given for this file: add a row to TIERS in tests/lint/rules.py'
        return
    tier, module, allowed = row
    for line, system, name in src.includes:
        if system:
            continue
        target = target_of(name)
        other = module_of(target)
        if other is None:
            yield line, 'tier', f'"{name}" belongs to no module: includes start at the root ("map/name.h")'
        elif other[1] == module:
            continue
        elif not any(covers(entry, target) for entry in allowed) or other[0] >= tier:
            yield line, 'tier', f'{module} must not include "{name}" (it may use: {", ".join(allowed) or "nothing"})'
        elif other[1].startswith('common/net') and not any(covers(entry, target) for entry in allowed if entry.startswith('common/net')):
            yield line, 'tier', f'{module} must not include "{name}": pure code does not reach a socket'


def check_homes(src):
    for line, system, name in src.includes:
        if not system:
            continue
        home = next((files for header, files in rules.HOMES if fnmatch.fnmatchcase(name, header)), None)
        if home is not None:
            if not any(fnmatch.fnmatchcase(src.path, f) for f in home):
                yield line, 'home', f'<{name}> is at home in {", ".join(home) or "tests/"} alone'
        elif name.removesuffix('.h') not in rules.LIBC and not name.startswith(tuple(rules.LIBC_FOLDERS)):
            yield line, 'home', f'<{name}> is of libc or a library without a home: see HOMES in tests/lint/rules.py'


def check_own_header(src, paths):
    own = src.path[:-2] + '.h'
    if src.is_header or own not in paths:
        return
    if not src.includes:
        yield 1, 'own-header', f'must include "{own}" first'
    elif src.includes[0][2] != own:
        yield src.includes[0][0], 'own-header', f'must include "{own}" first, before "{src.includes[0][2]}"'


def check_include_order(src):
    """System headers, then ours, each block sorted. The header that a .c file implements stands before them."""
    includes = src.includes
    if not src.is_header and includes and not includes[0][1]:
        includes = includes[1:]
    ours_began, last = False, None
    for line, system, name in includes:
        if system and ours_began:
            yield line, 'include-order', f'<{name}> comes after a header of ours: system headers come first'
        ours_began = ours_began or not system
        same_block = last is not None and last[0] == line - 1 and last[1] == system
        if same_block and name < last[2]:
            yield line, 'include-order', f'"{name}" is not sorted: it goes before "{last[2]}"'
        last = (line, system, name)


def check_guard(src):
    directive = re.search(r'^[ \t]*#[ \t]*(\w+)[ \t]+(\w+)', src.code, re.M)
    if not directive or directive[1] != 'ifndef' or not re.search(r'#[ \t]*define[ \t]+' + directive[2], src.code):
        yield 1, 'guard', 'a header begins with #ifndef XCE_..._H and #define of the same name'


def check_header_comments(src):
    first = src.text.lstrip()
    if not first.startswith(('/*', '//')):
        yield 1, 'header-comment', 'begins without a comment that says what it is and what it is not'
    for m in re.finditer(r'^(?!typedef\b)[A-Za-z_][\w \t*]*\([^;{}]*\)[^;{}()]*(?:\([^;{}]*\))*[^;{}()]*;', src.code, re.M):
        line = src.line_of(m.start())
        if m[0].startswith(('return', 'extern', '_Static_assert', 'static_assert')):
            continue
        at = line - 1  # index of the prototype's first line
        while at > 0 and src.lines[at - 1].strip() and not src.lines[at - 1].rstrip().endswith('*/'):
            at -= 1
        if at == 0 or not src.lines[at - 1].strip():
            name = re.search(r'(\w+)\s*\(', m[0])[1]
            yield line, 'header-comment', f'{name} has no comment above it or above its group'


def check_calls(src):
    banned = dict(rules.FORBIDDEN)
    if src.is_test:
        banned = {name: why for name, why in banned.items() if name not in rules.FORBIDDEN_NOT_IN_TESTS}
    for folder, (names, why) in rules.FORBIDDEN_IN.items():
        if src.path.startswith(folder + '/'):
            banned.update({name: why for name in names})
    pattern = r'(?<![\w.>])(' + '|'.join(map(re.escape, banned)) + r')\s*\('
    for m in re.finditer(pattern, src.code):
        yield src.line_of(m.start()), 'call', f'{m[1]}() is not used here: {banned[m[1]]}'


def check_typedefs(src):
    for m in re.finditer(r'^[ \t]*typedef\b([^;{]*)', src.code, re.M):
        if not re.search(r'\(\s*\*?\s*\w+_fn\s*\)\s*\(|\b\w+_fn\s*\(', m[1]):
            yield src.line_of(m.start()), 'typedef', 'only callbacks are typedefs, named ..._fn'


def check_file_size(src):
    limit = rules.MAX_H_LINES if src.is_header else rules.MAX_C_LINES
    n = src.text.count('\n')
    if n > limit:
        yield limit + 1, 'file-size', f'{n} lines, at most {limit}: split it by meaning'


def functions_of(root, sources):
    """(source, name, first line, last line, signature) of every function body, by ctags."""
    by_path = {s.path: s for s in sources}
    try:
        done = subprocess.run(
            ['ctags', '--options=NONE', '--output-format=json', '--languages=C', '--kinds-C=f', '--fields=+neS', '-L', '-',
             '-o', '-'], input='\n'.join(by_path), cwd=root, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        sys.exit('lint: ctags is missing (universal-ctags): run scripts/setup')
    except subprocess.CalledProcessError as e:
        sys.exit(f'lint: ctags failed: {e.stderr}')
    for entry in done.stdout.splitlines():
        tag = json.loads(entry)
        if tag.get('_type') == 'tag' and 'end' in tag:
            yield by_path[tag['path']], tag['name'], tag['line'], tag['end'], tag.get('signature', '()')


def n_parameters(signature):
    inner = signature.strip()[1:-1].strip()
    if inner in ('', 'void'):
        return 0
    depth, n = 0, 1
    for c in inner:
        depth += c in '([{'
        depth -= c in ')]}'
        n += c == ',' and depth == 0
    return n


def nesting(body):
    """(levels, offset of the deepest) of control blocks within a function's text, braces of initialisers left out."""
    depth, deepest, where = 0, 0, 0
    stack = []
    for m in re.finditer(r'[{}]', body):
        if m[0] == '{':
            before = body[:m.start()].rstrip()
            block = bool(stack) and (before.endswith(')') or re.search(r'\b(else|do)$', before) is not None)
            # "(struct x){...}" ends in a bracket too: a cast, told by the type in it.
            if block and re.search(r'\((?:const )?(?:struct|union) \w+(?: ?\*)?(?:\[[^\]]*\])?\)$', before):
                block = False
            stack.append(block)
            depth += block
            if depth > deepest:
                deepest, where = depth, m.start()
        elif stack:
            depth -= stack.pop()
    return deepest, where


def check_functions(root, sources):
    for src, name, first, last, signature in functions_of(root, sources):
        length = last - first + 1
        if length > rules.MAX_FUNCTION_LINES:
            at = first - 2
            while at >= 0 and src.lines[at].strip():
                at -= 1
            if not re.search(rules.FLAT_MARK, '\n'.join(src.lines[at + 1:first - 1])):
                yield src.path, first, 'function-size', (
                    f'{name} has {length} lines, at most {rules.MAX_FUNCTION_LINES}'
                    ' (a flat table or switch says "lint: flat (why)" in the comment above)')
        n = n_parameters(signature)
        if n > rules.MAX_PARAMETERS:
            yield src.path, first, 'parameters', f'{name} has {n}, at most {rules.MAX_PARAMETERS}: pass a struct'
        start = src._starts[first - 1]
        body = src.code[start:src._starts[last] if last < len(src._starts) else None]
        levels, where = nesting(body)
        if levels > rules.MAX_NESTING:
            yield src.path, src.line_of(start + where), 'nesting', (
                f'{name} nests {levels} blocks, at most {rules.MAX_NESTING}: return early or split')


def check_cycles(sources):
    headers = {s.path: s for s in sources if s.is_header}
    edges = {path: [(line, target_of(name)) for line, system, name in s.includes
                    if not system and target_of(name) in headers] for path, s in headers.items()}
    done, trail = set(), []

    def visit(path):
        trail.append(path)
        for line, target in edges[path]:
            if target in trail:
                ring = trail[trail.index(target):] + [target]
                yield path, line, 'cycle', 'headers include each other: ' + ' -> '.join(ring)
            elif target not in done:
                yield from visit(target)
        trail.pop()
        done.add(path)

    for path in sorted(edges):
        if path not in done:
            yield from visit(path)


def check_machine_paths(root):
    pattern = re.compile('|'.join(rules.MACHINE_PATHS))
    for path in walk(root):
        try:
            with open(os.path.join(root, path), encoding='utf-8') as f:
                text = f.read()
        except (UnicodeDecodeError, OSError):
            continue
        for m in pattern.finditer(text):
            yield path, text.count('\n', 0, m.start()) + 1, 'machine-path', f'"{m[0]}" is a path of one machine'


DECISION = re.compile(r'docs/decisions/(\d{4})-[a-z0-9-]+\.md$')
LINK = re.compile(r'\]\(([^)#:\s]+)(?:#[^)\s]*)?\)')
MENTION = re.compile(r'\b(?:docs/decisions/|[Dd]ecision )(\d+)\b')


def check_documents(root):
    """Decisions have numbers of their own; what text points to is there."""
    paths = list(walk(root))
    known = {}
    for path in paths:
        number = DECISION.match(path)
        if number is None:
            continue
        other = known.setdefault(int(number[1]), path)
        if other != path:
            yield path, 1, 'decision', f'has the number of {other}'
        with open(os.path.join(root, path), encoding='utf-8') as f:
            if not f.readline().startswith(f'# {int(number[1])}. '):
                yield path, 1, 'decision', f'begins with "# {int(number[1])}. ", as it is called'
    for path in paths:
        if not path.endswith(('.md', '.c', '.h', '.py')) or path.startswith('tests/lint/'):
            continue
        with open(os.path.join(root, path), encoding='utf-8', errors='replace') as f:
            text = f.read()
        for m in MENTION.finditer(text):
            if int(m[1]) not in known:
                yield path, text.count('\n', 0, m.start()) + 1, 'link', f'there is no decision {m[1]}'
        for m in LINK.finditer(text) if path.endswith('.md') else ():
            if not os.path.exists(os.path.join(root, os.path.dirname(path), m[1])):
                yield path, text.count('\n', 0, m.start()) + 1, 'link', f'there is no {m[1]}'


def walk(root):
    """Every regular file of the tree, build folders and dot folders but .ci left out."""
    for folder, dirs, files in os.walk(root):
        dirs[:] = sorted(d for d in dirs if d == '.ci' or not (d.startswith('.') or d == '__pycache__' or
                         (folder == root and (d.startswith('build') or d == 'subprojects'))))
        for name in sorted(files):
            path = os.path.join(folder, name)
            if name != '.git' and os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, root)


def check_tree(root):
    """Every finding: (path, line, rule, what), sorted."""
    paths = [p for p in walk(root) if p.endswith(('.c', '.h')) and p.split('/')[0] in CODE_ROOTS]
    known = set(paths)
    sources = [Source(root, p) for p in paths]
    found = []
    for src in sources:
        checks = [check_own_header(src, known), check_calls(src), check_file_size(src)]
        if src.is_header:
            checks.append(check_guard(src))
        if not src.is_test:
            checks += [check_tiers(src), check_homes(src), check_include_order(src), check_typedefs(src)]
        if src.is_header and src.path.split('/')[0] in rules.DOCUMENTED:
            checks.append(check_header_comments(src))
        for check in checks:
            found += [(src.path, *finding) for finding in check]
    if sources:
        found += check_functions(root, sources)
    found += check_cycles(sources)
    found += check_machine_paths(root)
    found += check_documents(root)
    return sorted(set(found))


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit('usage: lint.py ROOT')
    found = check_tree(sys.argv[1])
    for path, line, rule, what in found:
        print(f'{path}:{line}: {rule}: {what}')
    print(f'lint: {len(found)} findings')
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
