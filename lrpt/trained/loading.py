"""Trained networks, loaded from run directories and from kept results: `lrpt.load`.

Only `Loaded.save` writes files. A run directory has checkpoints. A kept result has the weights of the best one in `model.npz`, and the
interface between task and network, so that no data are needed to use it.
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lrpt.errors import UsageError, check_choice
from lrpt.networks.over_time import OverTime, over_time
from lrpt.networks.protocol import SOWN, Start, check_rows
from lrpt.networks.recurrent import Recurrent
from lrpt.networks.sequence_model import ModelConfig, recurrent_of
from lrpt.runs import named_arrays, user_code, weights
from lrpt.runs.checkpoint import Checkpoints, Restored
from lrpt.runs.classes import CLASSES, class_names
from lrpt.runs.configuration import to_json
from lrpt.runs.imports import import_module
from lrpt.runs.run_directory import RunDirectory
from lrpt.scaling import Scaling
from lrpt.tasks.task import AnyVocabulary, Task
from lrpt.trained.inference import Inference
from lrpt.trained.recorded import Parts, configuration, identity_of, import_recorded, recorded_text, with_data_dir
from lrpt.trained.saving import write_network
from lrpt.trained.writing import Writer, unknown_in_words
from lrpt.training.interface import Interface, described_vocabulary, description
from lrpt.training.origin import check_data, check_text, digests
from lrpt.training.program import evaluator_of_one
from lrpt.training.setup import initial_state
from lrpt.training.step import Variables, evaluated_variables, state_shapes

State = Literal["best", "last"]


def load(
    directory: str | Path,
    *,
    model: type | None = None,
    data: type | None = None,
    imports: str | Sequence[str] = (),
    data_dir: str | Path | None = None,
    state: State = "best",
    warn: Callable[[str], None] = warnings.warn,
) -> "Loaded":
    """Read a trained network from a run directory or a kept result.

        trained = lrpt.load("runs/adding/paper-seed0")
        predictions = trained.predict(inputs)                           # in the units of the data
        predictions = trained.model.apply(trained.variables, inputs)    # in those of the network, see `trained.scaling`

    Args:
      directory: the run directory, finished or not, or the directory of a kept result.
      model: class of the network's configuration, if `config.json` does not name one that can be imported.
      data: class of the task's configuration, in the same case.
      imports: module or modules to import first, such as one that registers a cell of yours. Those that the run has recorded are imported
        anyway, if they are found.
      data_dir: where the data sets are, instead of where they were when the run was trained.
      state: 'best' has the lowest validation loss, or the best metric of `train.select`; 'last' is where training stopped.
      warn: called with one line for each damaged checkpoint that is passed over, and for modules that have changed.

    Raises:
      UsageError: there is no such module or state; the directory holds no run; its classes cannot be found; it has no
        checkpoint and no weights that are intact.
    """
    check_choice("state", state, get_args(State))
    for name in [imports] if isinstance(imports, str) else imports:
        import_module(name)
    path = Path(directory).expanduser()
    failed = import_recorded(path)
    loaded = Loaded(path, Parts(model, data), None if data_dir is None else Path(data_dir), state, warn)
    for name, reason in failed.items():
        warn(f"module '{name}', with which {path} was trained, cannot be imported ({reason})")
    if names := user_code.changed(RunDirectory(path).user_code(), user_code.digests_of(loaded.config)):
        warn(f"{user_code.in_words(names)} since {path} was trained")
    return loaded


def is_kept_result(path: Path) -> bool:
    """Return whether a directory holds kept weights and no checkpoints."""
    return weights.are_kept(path) and not RunDirectory(path).checkpoints.is_dir()


class Loaded:
    """A trained network; `load` makes it.

    Attributes:
      path: the directory that it was read from.
      experiment: name of the experiment, 'custom' for a run that no experiment started.
      preset: name of the preset.
      seed: seed of parameters, data and the order of batches.
      config: the configuration.
      is_kept: whether the directory is a kept result, without checkpoints.
      update: the number of updates that the weights have seen, without those of a loop of yours.

    You may replace `variables`: all methods then use the new ones.
    """

    def __init__(self, path: Path, parts: Parts, data_dir: Path | None, state: State, warn: Callable[[str], None]) -> None:
        self.path = path
        self._identity = identity = identity_of(path)
        self.experiment, self.preset, self.seed = identity["experiment"], identity["preset"], identity["seed"]
        self.config = with_data_dir(configuration(path, identity, parts), data_dir)
        self.is_kept = is_kept_result(path)
        if self.is_kept:
            weights.check_digest(path)
            if state == "last":
                raise UsageError(f"{path} keeps the weights of the best state alone: choose --state best")
            self.update = weights.metadata_of(path)["update"]
        else:
            self._digests: dict[str, str] = {}
            self.update, self.variables = self._from_checkpoints(state, warn)

    def __repr__(self) -> str:
        return f"Loaded({str(self.path)!r}: {self.label}, update {self.update:,})"

    @cached_property
    def task(self) -> Task:
        """Return the task with its data, which are read at first use.

        Raises:
          UsageError: data are missing, or differ from the data of the run.
        """
        task = self.config.build_task(self.seed)
        if self.is_kept:
            check_text(self.path, self.interface.text, task, "name another run", recorded_text(self.path, self._identity))
        else:
            check_data(self.path, self._digests, task, "name another run")
        return task

    @cached_property
    def interface(self) -> Interface:
        """Return the interface to the task. No data are needed for it, except for runs that were trained before it was recorded."""
        return Interface.of(self.task) if self._described is None else Interface.from_json(self._described["task"])

    @cached_property
    def _described(self) -> dict[str, Any] | None:
        """Return the description of the task, or None if a run has none that can be read."""
        if self.is_kept:
            return weights.metadata_of(self.path)
        found = RunDirectory(self.path).task()
        try:
            if found is not None:
                Interface.from_json(found["task"])
                described_vocabulary(found)
        except (UsageError, LookupError, TypeError, ValueError, AttributeError):
            return None
        return found

    @property
    def scaling(self) -> Scaling:
        """Return the scaling of inputs and predictions. `model` and `step` take standardized values, `predict` takes units of the data."""
        return self.interface.scaling

    @cached_property
    def vocabulary(self) -> AnyVocabulary | None:
        """Return the symbols of inputs and predictions, or None if they are not symbols of a text."""
        return self.task.vocabulary if self._described is None else described_vocabulary(self._described)

    @cached_property
    def model(self) -> nn.Module:
        """Return the network as a Flax module."""
        return self.config.model.build(self.interface.input_size, self.interface.output_size, self.interface.reads)

    @cached_property
    def variables(self) -> dict[str, Any]:
        """Return parameters and other collections, for Flax's `apply`."""
        arrays = named_arrays.load_arrays(self.path / weights.MODEL)
        with jax.ensure_compile_time_eval():  # the first use may be under `jit`, whose tracers must not be kept
            return named_arrays.from_named(jax.eval_shape(self._initialize), arrays)

    @property
    def initial(self) -> dict[str, Any]:
        """Return the variables before the first update, which are not trained. A start file is ignored."""
        return jax.jit(self._initialize)()

    def with_network(self, model: Any, variables: Variables) -> "Loaded":
        """Return another network for the same task, such as a compressed one. This one stays as it is.

        All methods then use the new network, and `save` writes its configuration.

        Args:
          model: configuration of the network, such as a `ModelConfig`.
          variables: its variables.

        Raises:
          UsageError: the variables are not those of the network.
        """
        changed = copy.copy(self)
        vars(changed).pop("model", None)
        changed.config = replace(self.config, model=model)
        changed.variables = changed._checked(variables)
        if "task" in vars(self):
            changed.task = self.task  # its data are in memory
        return changed

    def _checked(self, variables: Variables) -> dict[str, Any]:
        """Return variables in the types of the network. Raise a UsageError if they are not those of the network."""
        return named_arrays.from_named(jax.eval_shape(self._initialize), named_arrays.to_named(variables))

    def _initialize(self) -> dict[str, Any]:
        found = self.model.init(jax.random.key(self.seed), self.interface.zeros(1))
        return {name: tree for name, tree in found.items() if name not in SOWN}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("task", "writer", "_inference")}  # hold functions

    @property
    def label(self) -> str:
        """Return the name of this run in plots."""
        return f"{self.config.model.label} seed {self.seed}"

    @property
    def recurrent_config(self) -> ModelConfig:
        """Return the configuration of the network.

        Raises:
          UsageError: it has no recurrent part.
        """
        config = self.config.model
        if not isinstance(config, ModelConfig):
            raise UsageError(f"{self.path} holds a run of {config.label}: name a run of a recurrent network")
        return config

    @property
    def recurrent(self) -> Recurrent:
        """Return the recurrent part of the network, whose parameters are `variables["params"]["recurrent"]`.

        Raises:
          UsageError: the network has none.
        """
        return recurrent_of(self.recurrent_config, self.interface.input_size)

    def embed(self, variables: Variables, inputs: Array) -> Array:
        """Return what the cell of a network with these variables reads: vectors, if there is an embedding."""
        if self.recurrent_config.embedding_width is None:
            return inputs
        return self.model.apply(variables, inputs, method=lambda model, xs: model.embedding(xs))  # type: ignore[return-value]

    def over_time(
        self, inputs: Float[Array, "b t m"] | Int[Array, "b t"], variables: Variables | None = None, *, standardized: bool = False
    ) -> OverTime:
        """Return the recurrent part over sequences as `lrpt.recur` and the analyses take it: (step, params, carry, xs).

            _, (states, gates) = lrpt.recur(*trained.over_time(inputs), outputs="info")     # of all steps, time first

        Of a cell whose output is its state, such as a GRU, `states` are the states.

        Args:
          inputs: as `predict` takes them.
          variables: other ones, such as `initial`.
          standardized: whether the inputs are in the units of the network, as are those of the splits of `task`.

        Raises:
          UsageError: the network has no recurrent part, or the inputs do not have the shape that it reads.
        """
        network, chosen = self.recurrent, self.variables if variables is None else variables
        given = self._inference.checked(inputs)
        if given.ndim != 2 + len(self.interface.step):
            raise UsageError(f"inputs have shape {given.shape}: expected whole sequences, with axes of batch and time")
        xs = self.embed(chosen, given if standardized else self.scaling.standardize(given))
        return over_time(network, chosen, jnp.swapaxes(xs, 0, 1))

    def predict(self, inputs: Float[Array, "b *t m"] | Int[Array, "b t"], mask: Bool[Array, "b t"] | None = None) -> Float[Array, "b *t o"]:
        """Return predictions for whole sequences, both in the units of the data: `model.apply` with the scaling before and after it.

        Compiled once for each shape of inputs.

        Args:
          inputs: as the task's file has them, without standardization. Integers stand for numbers if the network reads vectors.
          mask: true at steps that count; None if all do. Predictions at the other steps have no meaning.

        Raises:
          UsageError: the inputs do not have the shape that the network reads.
        """
        return self._inference.predict(self.variables, inputs, mask)

    @cached_property
    def _inference(self) -> Inference:
        return Inference(self.model, self.interface)

    def sample(self, prompt: str = "", length: int = 500, *, temperature: float = 1.0, top_k: int | None = None, seed: int = 0) -> str:
        """Return a prompt and its continuation by a language model, as the command `sample` prints them.

            print(trained.sample("The function ", length=200, temperature=0.5))

        Compiled once for each length of prompt and text, and each `top_k`. Characters or words that the training text does not have are
        read as the unknown symbol, with a warning.

        Args:
          prompt: text that the network continues; '' for the beginning of a line.
          length: number of symbols to draw, characters or words.
          temperature: values below 1 favour probable symbols; 0 always takes the most probable one.
          top_k: draw from the k most probable symbols only (None: from all).
          seed: seed of the random numbers.

        Raises:
          UsageError: the network is no language model, or its inputs also say which unit each symbol completes; the training text has
            nothing of the prompt; the length or the temperature is negative, top_k is below 1, or the seed is not from 0 to 2^32 - 1.
        """
        if unknown := unknown_in_words(self.writer.vocabulary, prompt):
            warnings.warn(unknown, stacklevel=2)
        return self.writer.text(self.variables, prompt, length, seed, temperature, top_k)

    @cached_property
    def writer(self) -> Writer:
        """Return the language model as a writer of texts, from given variables and prompts.

        Raises:
          UsageError: the network is no language model, or its inputs also say which unit each symbol completes.
        """
        if self.vocabulary is None:
            raise UsageError(f"{self.path} holds a run of {self.experiment}, which is no language model: name a run of a language model")
        return Writer(self.model, self.vocabulary, self.interface.streams)

    def evaluate(self, model: nn.Module | None = None, variables: Variables | None = None) -> dict[str, dict[str, float]]:
        """Compute the metrics of the validation and the test split; of the test split only if both are the same.

        Args:
          model: another module for the same task.
          variables: its variables.
        """
        task, train = self.task, self.config.train
        splits = ("test",) if task.splits["valid"] is task.splits["test"] else ("valid", "test")
        chosen = self.variables if variables is None else variables
        options = train.evaluation_rows, train.order == "lengths"
        return {split: evaluator_of_one(model or self.model, task, split, *options)(chosen) for split in splits}

    def start(self, rows: int = 1) -> Start:
        """Return the state before the first step of `rows` sequences, for `step`.

        Raises:
          UsageError: the network reads no sequences, or the number of rows is no integer, or below 1.
        """
        check_rows(rows)
        if not self.interface.is_sequence:
            raise UsageError(
                f"{self.path} holds a run of {self.config.model.label}, which reads no sequences: call its model on whole examples"
            )
        return self._inference.start(self.variables, rows)

    def step(self, state: Start, x: Float[Array, "b m"] | Int[Array, " b"]) -> tuple[Start, Float[Array, "b o"]]:
        """Read one step of each sequence: (state, predictions), the same numbers as `predict` gives for the whole sequence. Compiled once.

        Inputs and predictions are in the units of the data. Integers stand for numbers if the network reads vectors, as in `predict`.

        Raises:
          UsageError: a symbol is not one of the network's, or `x` has the shape of sequences.
        """
        return self._inference.step(self.variables, state, x)

    def save(self, directory: str | Path) -> None:
        """Write the network with its present variables to a new directory, which `load` and the commands for trained networks read.

        The directory has no metrics and no result, because those of the run were computed with its own weights. `evaluate` computes new
        ones.

        Args:
          directory: a new or empty directory.

        Raises:
          UsageError: the directory holds files or cannot be written; the variables are not those of the network, or are not finite.
        """
        self._checked(self.variables)
        identity = {**self._identity, "model": to_json(self.config.model)}
        identity[CLASSES] = {**identity.get(CLASSES, {}), **class_names(self.config)[CLASSES]}
        write_network(Path(directory).expanduser(), identity, *pack(self))

    def _from_checkpoints(self, state: State, warn: Callable[[str], None]) -> tuple[int, dict[str, Any]]:
        """Return the number of updates and the variables of a state."""
        directory = RunDirectory(self.path)
        checkpoints = Checkpoints(directory.checkpoints, warn, directory.identifier)
        newest = self._newest(checkpoints)
        if newest is None:
            raise UsageError(
                f"{self.path} holds neither a checkpoint nor kept weights: train it for longer, or name another run "
                "(docs/reproduction/models.md lists kept results with weights)"
            )
        self._digests = digests(newest.metadata)
        if "task" in vars(self):  # it was read for its interface
            check_data(self.path, self._digests, self.task, "name another run")
        best = newest.metadata["best"]["update"]
        if state == "last" or not best:  # none is best in a run that was interrupted before its first evaluation
            return newest.update, evaluated_variables(self.config.optim, newest.state)
        restored = checkpoints.restore_best(newest.state, best, f"these are the weights of update {newest.update}") or newest
        return restored.update, evaluated_variables(self.config.optim, restored.state)

    def _newest(self, checkpoints: Checkpoints) -> Restored | None:
        """Return the newest intact checkpoint. Its shapes are those of the network, or of the task if it has the data only."""
        shapes = state_shapes(self.model, self.interface, self.config.optim.build(), self.config.train.batch_size)
        passed_over: list[str] = []
        try:
            newest = Checkpoints(checkpoints.path, passed_over.append, checkpoints.run).latest(shapes)
        except UsageError:
            if not any("does not fit" in line for line in passed_over):
                raise
            return checkpoints.latest(initial_state(self.config, self.seed, self.task, self.model))
        for line in passed_over:
            checkpoints.warn(line)
        return newest


def pack(loaded: Loaded) -> tuple[bytes, dict[str, Any]]:
    """Return the weights of a network in the form of a kept result, and their metadata (see `lrpt.runs.weights`)."""
    metadata = {"update": loaded.update, **description(loaded.interface, loaded.vocabulary)}
    arrays = named_arrays.to_named(loaded.variables)
    return weights.pack({name: named_arrays.storable(array) for name, array in arrays.items()}), metadata
