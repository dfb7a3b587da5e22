#!/usr/bin/env bash
# One run over several hosts. JAX detects its processes. If one process is lost, all end, and the job is requeued.
#
#   sbatch docs/launch/slurm_hosts.sh wiki --preset text8-10x1500 --data.dir DIR --workdir DIR
#
# All hosts must see the directory of --data.dir. --workdir belongs on a shared disk: after requeueing, another host may be the first.
#
# Environment variables:
#   PYTHON       the interpreter of the environment with lrpt (default: python)
#   LRPT_TURNS   how often the job may be requeued (default: 100)
#
#SBATCH --job-name=lrpt-hosts
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-task=1
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@180
set -euo pipefail

experiment=${1:?the name of an experiment, as in wiki}
shift
turns=${LRPT_TURNS:-100}

status=0
srun --kill-on-bad-exit=1 "${PYTHON:-python}" -m "experiments.$experiment" --distributed.auto "$@" || status=$?

# 2: the command line is wrong, so requeueing would not help.
if ((status != 0 && status != 2 && ${SLURM_RESTART_COUNT:-0} < turns)); then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
