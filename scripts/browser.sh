#!/usr/bin/env bash
# Tests the live map, with a small federation of its own (`fedtse up`), and the report in headless Chromium:
#
#     scripts/browser.sh
#
# Installs Debian's chromium and nodejs if they are missing, and Playwright and axe, as package-lock.json has them, into
# .browser; pictures of what the tests saw are in .browser/pictures. Needs `cargo build --release`.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=crates/fedtse/tests/browser
tools=.browser

missing=()
command -v "${CHROMIUM:-chromium}" >/dev/null || missing+=(chromium)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
if [ "${#missing[@]}" -gt 0 ]; then
    echo "browser.sh: installing ${missing[*]}" >&2
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi
if ! cmp -s "$tests/package-lock.json" "$tools/package-lock.json"; then
    mkdir -p "$tools"
    cp "$tests/package.json" "$tests/package-lock.json" "$tools/"
    (cd "$tools" && npm ci --silent --no-audit --no-fund) || { rm -f "$tools/package-lock.json"; exit 1; }
fi
FEDTSE_BROWSER=$tools timeout --kill-after=10 1200 node --test "$@" "$tests/map.test.mjs" "$tests/report.test.mjs"
