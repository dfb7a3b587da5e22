#!/usr/bin/env bash
# A Ray cluster for the duration of a job, and a sweep on it.
#
#   sbatch docs/launch/slurm_ray.sh copy_memory adding --presets paper --seeds 5 --workdir DIR
#
# DIR is on a disk that all nodes share. The sweep runs on the first node, and goes on if other nodes are lost.
#
# Environment variables:
#   PYTHON          the interpreter of the environment with lrpt (default: python); `ray` of the same environment must be in PATH
#   LRPT_RAY_PORT   port of the head of the cluster (default: 6379); give jobs that share a node different ones
#   LRPT_RAY_WAIT   seconds to wait for the head before the other nodes join it (default: 20)
#
#SBATCH --job-name=lrpt-ray
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

: "${1:?the name of an experiment, as in adding}"
export RAY_USAGE_STATS_ENABLED=0
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=${LRPT_RAY_PORT:-6379}

srun --nodes=1 --ntasks=1 --nodelist="$head" --overlap \
    ray start --head --node-ip-address="$head" --port="$port" --num-cpus="$SLURM_CPUS_PER_TASK" --include-dashboard=false --block &
sleep "${LRPT_RAY_WAIT:-20}"
if ((SLURM_JOB_NUM_NODES > 1)); then
    srun --nodes="$((SLURM_JOB_NUM_NODES - 1))" --ntasks-per-node=1 --exclude="$head" --no-kill --kill-on-bad-exit=0 \
        ray start --address="$head:$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
fi
"${PYTHON:-python}" -m experiments.sweep "$@" --engine ray --address "$head:$port"
