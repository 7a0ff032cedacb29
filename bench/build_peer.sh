#!/bin/sh
# build_peer.sh NAME BIN COMMAND...: builds a peer's program with a tool of another language. A peer that cannot be built
# must not keep the others from being measured: its output is kept in BIN/NAME.log, which bench/run points to.
name=$1 bin=$2
shift 2
mkdir -p "$bin"
if "$@" > "$bin/$name.log" 2>&1; then
  rm -f "$bin/$name.log"
else
  rm -f "$bin/$name"
  echo "bench: $name could not be built; see $bin/$name.log" >&2
fi
