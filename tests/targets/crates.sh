# Sourced by what builds with cargo.

# Of jemalloc's own build, the one library that Rust programs link: that takes half the time.
export GNUMAKEFLAGS="STATIC_LIBS=lib/libjemalloc_pic.a enable_shared=0"

# fetch_crates CARGO WHY NAME: brings the crates of the folder that it is called in, the first time. Where
# they cannot be had it says so, in the file WHY too, and returns 1.
fetch_crates() {
  local cargo=$1 file=$2 name=$3 said why
  local host=x86_64-unknown-linux-gnu
  export CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=20
  "$cargo" fetch --locked --offline --target "$host" >/dev/null 2>&1 && return
  said=$("$cargo" fetch --locked --target "$host" 2>&1) && return
  why=$(grep -m 1 '^error' <<<"$said" || tail -n 1 <<<"$said")
  echo "its crates cannot be fetched: $why" >"$file"
  echo "$name is left out: $(cat "$file")"
  return 1
}
