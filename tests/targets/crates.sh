# Sourced by what builds with cargo.

# Of jemalloc's own build, the one library that Rust programs link, without debug info. Its build compiles
# each source a first time for the names of its symbols (*.sym.o), which do not depend on optimisation. It would also
# list the headers of each source for later builds: CC_MM= leaves that out.
# The code of the library is the same as without these flags.
flags=
if command -v ccache >/dev/null; then
  # Nothing in the objects names the folder that they were compiled in. With -MD, ccache need not preprocess each
  # source itself, which takes a fifth of the compilation's time.
  export CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
  flags='\ -MD'
fi
export GNUMAKEFLAGS="STATIC_LIBS=lib/libjemalloc_pic.a enable_shared=0 CC_MM=
 --eval=%.pic.o:CFLAGS+=-g0$flags --eval=%.sym.o:CFLAGS+=-g0\ -O0\ -Dalways_inline=unused$flags"
GNUMAKEFLAGS=${GNUMAKEFLAGS//$'\n'/}
[ -z "$flags" ] || GNUMAKEFLAGS+=' CC=ccache\ cc'

# share_target OUT FILE...: has cargo build in a folder that all clones share, as ccache knows nothing of crates. It
# depends on the files, this one and the C compiler; cargo looks at all else. Locked until the script ends.
share_target() {
  local out=$1 base=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}} key
  shift
  key=$({ cat "$@" "${BASH_SOURCE[0]}" && cc --version; } | sha256sum | cut -c 1-16)
  export CARGO_TARGET_DIR=${base:-$out}/profd-tests/cargo-$key
  mkdir -p "$CARGO_TARGET_DIR"
  exec 9>"$CARGO_TARGET_DIR/shared.lock"
  flock 9
}

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
