#!/usr/bin/env python3
"""Applies one edit of this folder to a source: edit.py EDIT ROOT OUTPUT; edit.py --file EDIT prints which one.

An edit is: a line that says which rule is broken, "--- FILE", the exact text, "--- becomes", other text, "--- end". The text
must stand in the file exactly once: when the code has moved on, the edit has to, too."""
import sys


def read(path):
    with open(path, encoding='utf-8') as file:
        head, rest = file.read().split('\n--- ', 1)
    name, rest = rest.split('\n', 1)
    old, rest = rest.split('--- becomes\n', 1)
    new, rest = rest.split('--- end\n', 1)
    if not head or not old or rest:
        sys.exit(f'{path}: not an edit')
    return name, old, new


def main():
    if sys.argv[1] == '--file':
        print(read(sys.argv[2])[0])
        return
    edit, root, output = sys.argv[1:]
    name, old, new = read(edit)
    with open(f'{root}/{name}', encoding='utf-8') as file:
        source = file.read()
    if source.count(old) != 1:
        sys.exit(f'{edit}: its text stands {source.count(old)} times in {name}, not once: bring the edit up to date')
    line = source[:source.index(old)].count('\n') + 1
    with open(output, 'w', encoding='utf-8') as file:
        file.write(f'#line 1 "{name} with {edit.rsplit("/", 1)[-1]} at {line}"\n' + source.replace(old, new))


main()
