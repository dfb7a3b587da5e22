#!/usr/bin/env bash
# One seed for each task of a job array; a preempted task is requeued, and goes on from its checkpoint.
#
#   sbatch docs/launch/slurm_seeds.sh permuted_mnist --preset paper --data.dir DIR
#
# Environment variables:
#   PYTHON      the interpreter of the environment with lrpt (default: python)
#   LRPT_RUNS   directory of the runs, on a disk that all nodes share (default: runs). Seed 3 writes to LRPT_RUNS/permuted_mnist/seed3.
#
#SBATCH --job-name=lrpt
#SBATCH --array=0-4
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-task=1
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -euo pipefail

experiment=${1:?the name of an experiment, as in permuted_mnist}
shift
workdir=${LRPT_RUNS:-runs}/$experiment/seed${SLURM_ARRAY_TASK_ID:?submit this script with sbatch}

# Two minutes before its time limit (USR1) the task writes a checkpoint, exits with 143, and requeues itself. If it is preempted or
# cancelled (TERM), it writes a checkpoint and exits, and Slurm decides whether to requeue it.
again=no
child=
early=no
# shellcheck disable=SC2329 # the traps call it
stop() {
    if [[ -n $child ]]; then
        kill -TERM "$child" 2> /dev/null || true
    else
        early=yes
    fi
}
trap 'again=yes; stop' USR1
trap stop TERM

${PYTHON:-python} -m "experiments.$experiment" \
    --seed "$SLURM_ARRAY_TASK_ID" --workdir "$workdir" "$@" &
child=$!
if [[ $early == yes ]]; then # a signal came before the process number was known
    kill -TERM "$child" 2> /dev/null || true
fi
status=0
wait "$child" || status=$?
while kill -0 "$child" 2> /dev/null; do # a signal has ended the first wait, and not the child
    status=0
    wait "$child" || status=$?
done

if [[ $again == yes ]] && ((status == 143)); then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit "$status"
