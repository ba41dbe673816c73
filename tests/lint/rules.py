"""What tests/lint checks, as data. lint.py reads these tables; test_lint.py breaks each rule once."""

# Who may include whom (STYLE: includes go one way). A module is a folder ("leased/fsm") or the files of one stem
# ("noded/state": state.c, state.h, state_*.c); the longest match names a file's module. Each row: tier, module, what it
# may include besides libc, foreign libraries at home in it, and itself. "proto" is the generated code, "include" the
# public headers ("xce/map.h"). A single header may be named ("map/name.h"). test_lint.py checks that every row points
# only to lower tiers: nothing goes sideways.
_VALUES = ['include', 'common', 'map/name.h', 'proto']
TIERS = [
    (0, 'include', []),
    (0, 'proto', []),
    (0.5, 'map', ['include']),
    (1, 'common', ['include']),
    (1.5, 'common/net', ['include', 'common', 'proto']),
    (2, 'leased/rbac', _VALUES),
    (2, 'leased/fsm', _VALUES),
    (1.5, 'noded/reason', []),
    (2, 'noded/state', _VALUES + ['noded/reason']),
    (2, 'noded/epochs', _VALUES),
    (2, 'noded/deferred', _VALUES),
    (2, 'noded/retired', _VALUES),
    (2, 'noded/output', _VALUES),
    (2, 'noded/sweep', _VALUES + ['noded/reason']),
    (3, 'leased/engine', _VALUES + ['leased/fsm', 'common/net']),
    (3, 'leased/watch', _VALUES + ['leased/fsm']),
    (3, 'leased/audit', ['include', 'common']),
    (3, 'leased/history', _VALUES + ['leased/fsm/change.h', 'common/net/loop.h']),
    (2, 'noded/collide', _VALUES + ['noded/reason']),
    (3, 'noded/accounts', _VALUES + ['noded/reason', 'noded/collide', 'common/net']),
    (3, 'noded/map_writer', _VALUES + ['map', 'noded/state']),
    (3, 'noded/unit', _VALUES + ['noded/state', 'common/net']),
    (3, 'client', _VALUES + ['common/net']),
    (4, 'leased/service', _VALUES + ['leased/engine', 'leased/watch', 'leased/history', 'leased/fsm', 'leased/rbac']),
    (4, 'noded/session', _VALUES + ['noded/state', 'noded/deferred', 'noded/reason', 'common/net']),
    (5, 'leased/rpc', _VALUES + ['leased/service', 'leased/rbac', 'leased/audit', 'leased/fsm/fsm.h', 'common/net']),
    (5, 'leased/conf', _VALUES),
    (5.5, 'leased/seed', _VALUES + ['leased/engine', 'leased/fsm', 'leased/rbac']),
    (6, 'leased/server', _VALUES + ['leased', 'common/net']),
    (6.5, 'leased/main', _VALUES + ['leased', 'common/net']),
    (5, 'noded/conf', _VALUES),
    (6, 'noded/noded', _VALUES + ['noded', 'map', 'common/net']),
    (6.5, 'noded/main', _VALUES + ['noded', 'map', 'common/net']),
    (6, 'ctl', _VALUES + ['client', 'map']),
    (6, 'normalise', _VALUES + ['map']),
    (6, 'step', _VALUES),
    (6, 'nss_xce', ['include', 'map']),
    (6, 'pam', ['include', 'map']),
    (6, 'userdb', ['include', 'map', 'common']),
]

# A foreign library has one home: header (fnmatch) -> files (fnmatch) that may include it. tests/ may include all.
HOMES = [
    ('uv.h', ['common/net/loop*.c']),
    ('nghttp2/*', ['common/net/h2*.c']),
    ('protobuf-c/*', ['*']),
    ('raft.h', ['leased/engine/raft*.c', 'leased/engine/raft*.h']),
    ('raft/*', ['leased/engine/raft*.c', 'leased/engine/raft*.h']),
    ('sqlite3.h', ['leased/engine/sqlite*.c', 'leased/history/*.c']),
    ('ini.h', ['common/conf*.c']),
    ('jansson.h', ['common/json*.c']),
    ('systemd/sd-journal.h', ['common/log*.c']),
    ('systemd/sd-daemon.h', ['common/daemon*.c']),
    ('systemd/sd-bus.h', ['noded/unit/bus*.c', 'ctl/doctor_units.c']),
    ('systemd/sd-id128.h', ['common/*.c', 'noded/*.c']),
    ('openssl/*', ['common/digest*.c', 'common/cert*.[ch]', 'common/net/tls*.[ch]']),
    ('libsmartcols/*', ['ctl/output*.c']),
    ('uthash.h', ['*']),
    ('utlist.h', ['*']),
    ('utarray.h', ['*']),
    ('utstring.h', ['*']),
    ('nss.h', ['nss_xce/*', 'common/name_service.h', 'noded/collide.c']),
    ('security/*', ['pam/*']),
    ('cmocka.h', []),
]

# Headers of libc and the kernel, which every module may include. What is neither here nor in HOMES has no home.
LIBC_FOLDERS = ['sys/', 'linux/', 'netinet/', 'arpa/', 'net/', 'asm/', 'sanitizer/']
LIBC = set('''
aio alloca argp argz assert byteswap cpuid ctype dirent dlfcn elf endian err errno error fcntl features fenv float fnmatch
fts ftw getopt glob gnu-versions grp gshadow ifaddrs inttypes iso646 langinfo libgen libintl limits link locale malloc math
mcheck mntent mqueue netdb nl_types paths poll pthread pwd regex resolv sched search semaphore setjmp sgtty shadow signal
spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdio_ext stdlib stdnoreturn string strings syscall sysexits
syslog termios threads time uchar ucontext unistd utime utmp utmpx wchar wctype wordexp'''.split())

# Calls that no C file makes, and why.
FORBIDDEN = {
    'system': 'a shell between us and a program: use posix_spawn',
    'popen': 'a shell between us and a program: use posix_spawn',
    'strcpy': 'knows no limit: use snprintf or memcpy with a checked length',
    'strcat': 'knows no limit: use snprintf',
    'sprintf': 'knows no limit: use snprintf',
    'vsprintf': 'knows no limit: use vsnprintf',
    'gets': 'knows no limit: use fgets',
    'strtok': 'keeps state of its own: use strtok_r or strsep',
    'tmpnam': 'a race: use mkstemp',
    'tempnam': 'a race: use mkstemp',
    'mktemp': 'a race: use mkstemp',
    'alloca': 'the stack has no error to give: use malloc or a bounded array',
    'atoi': 'hides errors: use strtol or the parser of common',
    'atol': 'hides errors: use strtol or the parser of common',
    'atof': 'hides errors: use strtod',
    'gethostbyname': 'blocks, not thread safe: use getaddrinfo',
    'rand': 'not random: use getrandom',
    'srand': 'not random: use getrandom',
}

# Programs of tests read their own arguments.
FORBIDDEN_NOT_IN_TESTS = {'atoi', 'atol', 'atof'}

# Calls that a folder does not make besides. Pure code takes values and gives values (I5); a guest in a foreign process
# takes nothing that the host could feel.
_PURE = ['time', 'clock_gettime', 'gettimeofday', 'clock', 'getrandom', 'random', 'getenv', 'secure_getenv', 'setlocale',
         'open', 'openat', 'fopen', 'socket', 'connect', 'pthread_create', 'usleep', 'nanosleep', 'sleep']
# (realloc is left out: initgroups_dyn must grow the caller's array with it.)
_GUEST = ['malloc', 'calloc', 'strdup', 'asprintf', 'getenv', 'secure_getenv', 'abort', 'exit', '_exit', 'assert',
          'printf', 'fprintf', 'perror', 'syslog', 'socket', 'connect', 'pthread_atfork', 'dlopen', 'setlocale']
FORBIDDEN_IN = {
    'leased/fsm': (_PURE, 'the state is a pure function of the log'),
    'leased/rbac': (_PURE, 'a decision is a pure function of its arguments'),
    'nss_xce': (_GUEST, 'a guest in a foreign process'),
    'pam': (_GUEST, 'a guest in a foreign process'),
}

# Lines; parameters; levels of nested control blocks.
MAX_C_LINES = 1200
MAX_H_LINES = 400
MAX_FUNCTION_LINES = 100
MAX_PARAMETERS = 7
MAX_NESTING = 4
# A longer function that is a flat table or switch says so in the comment above it: "lint: flat (why)".
FLAT_MARK = r'lint: flat \(\S[^)]*\)'

# Folders whose headers are a manual: each prototype stands in a paragraph that begins with a comment.
DOCUMENTED = ['include', 'map']

# Paths of one developer's machine, in any text file.
MACHINE_PATHS = [r'/wor' + r'k/', r'/User' + r's/\w', r'/home/\w+/(src|git|build|code|projects?)\b', r'/far' + r'm/']
