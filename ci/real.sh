#!/usr/bin/env bash
#
# The middleware before real clients: curl, wrk, and nginx as a proxy in front.
#
#   ci/real.sh
#
# Starts the example `server` on two ports of this machine, once for clients that come by themselves and
# once for those that come through nginx, and asks what a user would. Installs nginx and wrk where they are
# missing and apt is there; needs bash, cargo and curl.

set -euo pipefail
cd "$(dirname "$0")/.."
# As ci/test.sh does, so that what that has built is not built again.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_DEBUG=0

say() { printf '\n== %s\n' "$*"; }
die() { printf '\nreal: FAILED: %s\n' "$*" >&2; exit 1; }

direct=127.0.0.1:38611
behind=127.0.0.1:38612
proxy=127.0.0.1:38613

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

say "clients"
for program in nginx wrk curl; do
    command -v "$program" >/dev/null && continue
    command -v apt-get >/dev/null || die "$program is missing: install it"
    package=$program
    [[ $program != nginx ]] || package=nginx-light
    { apt-get update && apt-get install -y --no-install-recommends "$package"; } >"$work/apt.log" 2>&1 ||
        { cat "$work/apt.log" >&2; die "$program is missing, and apt could not install it"; }
done
nginx -v 2>&1
wrk -v 2>&1 | head -n 1 || true

say "servers"
cargo build --locked --release --all-features --example server
server=${CARGO_TARGET_DIR:-target}/release/examples/server
"$server" --listen "$direct" >"$work/direct.log" &
"$server" --listen "$behind" --proxy 127.0.0.1/32 >"$work/behind.log" &
cat >"$work/nginx.conf" <<CONF
daemon off;
pid $work/nginx.pid;
error_log $work/nginx.log;
events {}
http {
    access_log off;
    client_body_temp_path $work/body;
    proxy_temp_path $work/proxy;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;
    server {
        listen $proxy;
        location / {
            proxy_pass http://$behind;
            proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;
        }
    }
}
CONF
nginx -c "$work/nginx.conf" -e "$work/nginx.log" &

# Waits until a server answers, ten seconds at most.
await() {
    curl -s -o "$work/answer" --retry 100 --retry-delay 0 --retry-max-time 10 --retry-connrefused \
        --retry-all-errors --fail "http://$1/health" || die "$2 does not answer"
}
await "$direct" "the server"
await "$behind" "the server behind nginx"
await "$proxy" "nginx"

# The status of one request.
status() { curl -s -o "$work/answer" -w '%{http_code}' "$@"; }
# How many of so many requests are admitted.
admitted() {
    local count=$1 sum=0 at
    shift
    for ((at = 0; at < count; at++)); do
        [[ $(status "${@//@/$at}") != 200 ]] || sum=$((sum + 1))
    done
    echo "$sum"
}
# Milliseconds since the epoch.
now() { echo $(($(date +%s%N) / 1000000)); }
# Dies if more were admitted than five and five a second since $2, in milliseconds.
within() {
    local most=$((5 + 5 * ($(now) - $2) / 1000 + 1))
    (($1 <= most)) || die "$3: $1 admitted, at most $most are right"
    (($1 >= 5)) || die "$3: $1 admitted, and five are there from the start"
    printf '%s: %s admitted, at most %s are right\n' "$3" "$1" "$most"
}

say "curl: the sixth is told to wait, and is admitted when it has"
start=$(now)
within "$(admitted 12 "http://$direct/")" "$start" "twelve at once"
until [[ $(status -D "$work/head" "http://$direct/") == 429 ]]; do :; done
cat "$work/head" "$work/answer"
grep -qi '^cache-control: no-store' "$work/head" || die "no Cache-Control: no-store"
grep -qi '^ratelimit: "anonymous";r=0;t=1' "$work/head" || die "no RateLimit"
grep -qi '^content-type: application/problem+json' "$work/head" || die "no problem details"
wait=$(tr -d '\r' <"$work/head" | awk 'tolower($1) == "retry-after:" { print $2 }')
[[ $wait == 1 ]] || die "Retry-After is '$wait', not 1"
sleep "$wait"
[[ $(status "http://$direct/") == 200 ]] || die "not admitted after Retry-After"

say "curl: HTTP/2"
sleep 1
[[ $(status --http2-prior-knowledge -D "$work/head" "http://$direct/") == 200 ]] || die "HTTP/2"
grep -q '^HTTP/2 200' "$work/head" || die "not HTTP/2"

say "curl: a log-in counts failures alone"
key="x-api-key: alice-1f9d"
for at in {1..20}; do
    [[ $(status -H "$key" -d secret "http://$direct/login") == 200 ]] || die "log-in $at"
done
for at in {1..5}; do
    [[ $(status -H "$key" -d wrong "http://$direct/login") == 401 ]] || die "failure $at"
done
[[ $(status -H "$key" -d secret "http://$direct/login") == 429 ]] || die "a sixth guess"

say "a header that a client has forged is nothing"
sleep 1
start=$(now)
within "$(admitted 60 -H "X-Forwarded-For: 192.0.2.@" "http://$direct/")" "$start" "direct"

say "nginx: each client has its own limit, and none by forging"
for client in 2 3; do
    start=$(now)
    sum=$(admitted 60 --interface "127.0.0.$client" -H "X-Forwarded-For: 192.0.2.@" "http://$proxy/")
    within "$sum" "$start" "client $client through nginx"
done
# All of a /64 are one client. The proxy may name any, so this asks the server as the proxy.
start=$(now)
within "$(admitted 60 -H "X-Forwarded-For: 2001:db8::@" "http://$behind/")" "$start" "a /64"
[[ $(status -H "X-Forwarded-For: 2001:db8:1::1" "http://$behind/") == 200 ]] || die "another /64"

say "1500 requests over 1500 connections"
sleep 1
start=$(now)
sum=$(seq 1500 | xargs -P 16 -I '{}' curl -s -o /dev/null -w '%{http_code}\n' "http://$direct/?{}" |
    grep -c '^200' || true)
within "$sum" "$start" "1500 connections"

say "wrk: at full speed no more than fifty a second"
start=$(now)
wrk -t 2 -c 64 -d 3 -H "x-api-key: bob-77c0" "http://$direct/" | tee "$work/wrk"
spent=$(($(now) - start))
total=$(awk '/ requests in / { print $1 }' "$work/wrk")
refused=$(awk '/Non-2xx/ { print $NF }' "$work/wrk")
most=$((50 + 50 * spent / 1000 + 1))
sum=$((total - ${refused:-0}))
((sum <= most)) || die "wrk: $sum admitted, at most $most are right"
((sum >= 50)) || die "wrk: $sum admitted, and fifty are there from the start"
[[ $(status "http://$direct/health") == 200 ]] || die "the server no longer answers"
printf 'wrk: %s of %s admitted, at most %s are right\n' "$sum" "$total" "$most"

say "real: all clients were answered as they should be"
