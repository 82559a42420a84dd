#!/bin/sh
# All of this study into a directory; what was ended goes on where it was.
#
#   scenarios/studies/cp/all.sh runs/cp [JOBS [LOGS [STRETCH]]]
#
# JOBS of each Eurora-like log (1500; KIT-like two thirds of them), LOGS of each machine (10, seeds from 41 on), STRETCH:
# jobs of a log that the sources' models are simulated on (250, of ten logs at most 40; below, instances are cut, too). The
# log of Gaia is looked for in $MLSIM_TRACES. README.md says what each part costs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1 jobs=${2:-1500} logs=${3:-10} stretch=${4:-250}
mkdir -p "$out/logs"
for seed in $(seq 41 $((40 + logs))); do
  [ -e "$out/logs/eurora-$seed.csv" ] || mlsim workload eurora -o "$out/logs/eurora-$seed.csv" --jobs "$jobs" --seed "$seed"
  [ -e "$out/logs/kit-$seed.csv" ] || mlsim workload kit -o "$out/logs/kit-$seed.csv" --jobs $((jobs * 2 / 3)) --seed "$seed"
done
# What stretches and instances are taken from, whatever JOBS is.
for seed in $(seq 41 50); do
  log="$out/logs/eurora1500-$seed.csv"
  [ -e "$log" ] || mlsim workload eurora -o "$log" --jobs 1500 --seed "$seed"
done
[ -e "$out/logs/kit1000-42.csv" ] || mlsim workload kit -o "$out/logs/kit1000-42.csv" --jobs 1000 --seed 42
MLSIM_TRACES=$(cd "$out/logs" && pwd):${MLSIM_TRACES:-}
export MLSIM_TRACES
python "$here/estimates.py" --logs "$logs" --out "$out/estimates"
for part in heuristics seeds kit; do
  mlsim study "$here/$part.yaml" --out "$out/$part"
done

# Instances. On short stretches also small models and a short limit, in place of the sources' 100 jobs and 1 to 16 s.
[ -e "$out/instances.jsonl.gz" ] ||
  mlsim cp dump "$here/instances.yaml" -o "$out/instances.jsonl.gz" --every 10 --most 100 --queued 2
if [ "$stretch" -lt 250 ]; then
  set -- --set jobs=20 --set time_limit=200ms --set time_limit_max=200ms
else
  set --
fi
rm -f "$out/solves.csv"
mlsim cp replay "$out/instances.jsonl.gz" -d pcp19 -d pcp4 -d pcp21 -d hcp19 -d lists -d cp "$@" \
  --store "$out/replay" -o "$out/solves.csv"

# The sources' models at the sources' limits: what takes longest.
sed -e "s|base: cp.yaml|base: $here/cp.yaml|" -e "s|first: 250|first: $stretch|" "$here/models.yaml" >"$out/models.yaml"
mlsim study "$out/models.yaml" --out "$out/models"
[ "$stretch" -gt 40 ] && stretch=40
sed -e "s|base: cp.yaml|base: $here/cp.yaml|" -e "s|first: 40|first: $stretch|" "$here/stretches.yaml" >"$out/stretches.yaml"
mlsim study "$out/stretches.yaml" --out "$out/stretches"
mlsim study "$here/gaia.yaml" --out "$out/gaia"
python "$here/figures.py" "$out"
