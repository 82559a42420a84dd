#!/bin/sh
# All of this study into a directory; what was ended goes on where it was.
#
#   scenarios/studies/cp/all.sh runs/cp [JOBS [LOGS [STRETCH]]]
#
# JOBS of each Eurora-like log (1500; KIT-like two thirds of them), LOGS of each machine (10, seeds from 41 on), STRETCH:
# jobs of a log that the sources' models plan for (250). The log of Gaia is looked for in $MLSIM_TRACES. README.md says what
# each part costs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1 jobs=${2:-1500} logs=${3:-10} stretch=${4:-250}
mkdir -p "$out/logs"
for seed in $(seq 41 $((40 + logs))); do
  [ -e "$out/logs/eurora-$seed.csv" ] || mlsim workload eurora -o "$out/logs/eurora-$seed.csv" --jobs "$jobs" --seed "$seed"
  [ -e "$out/logs/kit-$seed.csv" ] || mlsim workload kit -o "$out/logs/kit-$seed.csv" --jobs $((jobs * 2 / 3)) --seed "$seed"
done
MLSIM_TRACES=$(cd "$out/logs" && pwd):${MLSIM_TRACES:-}
export MLSIM_TRACES
python "$here/estimates.py" --logs "$logs" --out "$out/estimates"
for part in heuristics seeds kit; do
  mlsim study "$here/$part.yaml" --out "$out/$part"
done

# Instances: as many as are quick, then fewer at the sources' limits.
[ -e "$out/instances.jsonl.gz" ] ||
  mlsim cp dump "$here/instances.yaml" -o "$out/instances.jsonl.gz" --every 10 --most 100 --queued 2
replay() {
  name=$1
  shift
  rm -f "$out/$name.csv"
  mlsim cp replay "$out/instances.jsonl.gz" -d pcp19 -d pcp4 -d pcp21 -d pcp21s -d hcp19 -d lists -d cp \
    --store "$out/replay" -o "$out/$name.csv" "$@"
}
replay solves --set time_limit=100ms --set time_limit_max=100ms

# The sources' models at the sources' limits: what takes longest.
sed -e "s|base: cp.yaml|base: $here/cp.yaml|" -e "s|first: 250|first: $stretch|" "$here/models.yaml" >"$out/models.yaml"
mlsim study "$out/models.yaml" --out "$out/models"
mlsim study "$here/gaia.yaml" --out "$out/gaia"
python "$here/figures.py" "$out"
