"""What the pages and scripts of docs/ name is there."""

import importlib.util
import json
import re
import signal
import subprocess
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
import yaml

import experiments
from experiments.sweep import Options, split
from experiments.wiki import EXPERIMENT as WIKI
from lrpt.cells import CELLS, CellSpec
from lrpt.cli.flags import parse, parse_dataclass
from lrpt.matrices import ROW_AXIS
from lrpt.optim import RECIPES, recoveries
from lrpt.parametrizations import FORMS
from lrpt.specs import MatrixSpec

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WITH_TABLES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
SCRIPTS = sorted((DOCS / "launch").glob("*.sh"))
MANIFESTS = sorted((DOCS / "launch").glob("*.yaml"))


def glued_lines(text):
    """Return the lines of Markdown that a missing blank line glues to a table or a heading, as 'number: text'."""
    fenced, previous = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        table_begins_or_ends = line.startswith("|") != previous.startswith("|")
        if not fenced and line and previous and (table_begins_or_ends or line.startswith("#") or previous.startswith("#")):
            yield f"{number}: {line}"
        previous = line


@pytest.mark.parametrize("page", WITH_TABLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_blank_lines_stand_around_tables_and_headings(page):
    """Otherwise Markdown makes a paragraph below a table its last row."""
    assert list(glued_lines(page.read_text("utf-8"))) == []


def headless_tables(text):
    """Return the first lines of tables without a row of dashes below them, as 'number: text'. Markdown shows them as text."""
    fenced, lines = False, ["", *text.splitlines(), ""]
    for number, line in enumerate(lines[1:-1], 1):
        fenced ^= line.startswith("```")
        begins = line.startswith("|") and not lines[number - 1].startswith("|")
        if not fenced and begins and not re.match(r"\|(?: ?:?-{3,}:? ?\|)+$", lines[number + 1]):
            yield f"{number}: {line}"


@pytest.mark.parametrize("page", WITH_TABLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_tables_have_heads(page):
    """A blank line within a table makes its second half text."""
    assert list(headless_tables(page.read_text("utf-8"))) == []


def test_headless_tables_are_found():
    assert list(headless_tables("| a |\n|---|\n| b |\n\n| c |\n| d |\n\n```\n| e |\n```\n| f |\n| --- |\n")) == ["5: | c |"]


def test_glued_lines_are_found():
    assert list(glued_lines("# A\n\nb\n## C\n\n| d |\n|---|\ne\n\n```sh\n# f\ng\n```\n")) == ["4: ## C", "8: e"]


def test_the_fields_that_have_rows_are_listed_with_their_layouts():
    text = (DOCS / "extending.md").read_text("utf-8")
    (bullet,) = re.findall(r"^- Weight normalization and .*(?:\n  .*)+", text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`\s\(\w+, ", bullet)) == ROW_AXIS.keys()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_launch_scripts_are_bash_and_ask_for_what_is_missing(script):
    assert subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0
    done = subprocess.run(["bash", script], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode != 0
    assert "the name of" in done.stderr


def executable(path, text):
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(("number", "requeued"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)])
def test_a_seed_asks_for_another_turn_when_its_time_is_over(number, requeued, tmp_path):
    """With a program in the place of Python that leaves with 143 when it is told to."""
    executable(tmp_path / "python", f"trap 'exit 143' TERM; touch {tmp_path / 'ready'}; while :; do sleep 0.05; done")
    executable(tmp_path / "scontrol", f'echo "$@" > {tmp_path / "asked"}')
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "17"}
    with subprocess.Popen(["bash", DOCS / "launch" / "slurm_seeds.sh", "adding"], env=environment) as script:
        while not (tmp_path / "ready").exists():
            time.sleep(0.02)
        script.send_signal(number)
        assert script.wait(60) == 143
    assert (tmp_path / "asked").exists() == requeued
    assert not requeued or (tmp_path / "asked").read_text() == "requeue 17_3\n"


@pytest.mark.parametrize(("status", "turn", "requeued"), [(0, 0, False), (1, 0, True), (134, 99, True), (134, 100, False), (2, 0, False)])
def test_hosts_ask_for_another_turn_when_one_is_lost(status, turn, requeued, tmp_path):
    executable(tmp_path / "srun", f"exit {status}")
    executable(tmp_path / "scontrol", f'echo "$@" > {tmp_path / "asked"}')
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "17", "SLURM_RESTART_COUNT": str(turn)}
    assert subprocess.run(["bash", DOCS / "launch" / "slurm_hosts.sh", "wiki"], env=environment).returncode == status
    assert (tmp_path / "asked").exists() == requeued
    assert not requeued or (tmp_path / "asked").read_text() == "requeue 17\n"


def pod_specs(tree):
    """Everything in a manifest that has containers."""
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    own = [tree] if isinstance(tree, dict) and "containers" in tree else []
    return own + [spec for child in children for spec in pod_specs(child)]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_complete(path):
    """Every mount is a volume of its pod, and the command lines are those of experiments."""
    manifest = yaml.safe_load(path.read_text())
    assert {"apiVersion", "kind", "metadata", "spec"} == manifest.keys()
    pods = pod_specs(manifest)
    assert pods
    for pod in pods:
        (container,) = pod["containers"]
        assert {"name", "image"} <= container.keys()
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


SCHEMAS = Path(__file__).parent / "schemas"


def strict(schema):
    """Return a schema that refuses unknown fields, as `kubectl apply` does, and takes numbers with units as strings."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(each) for name, each in schema.items()}
    closed = isinstance(found.get("properties"), dict) and not found.get("x-kubernetes-preserve-unknown-fields")
    return found | {"additionalProperties": False} if closed else found


def complaints(manifest):
    """Return what the schema of a manifest's kind, as its makers publish it, says against it."""
    validators = pytest.importorskip("jsonschema")
    schema = json.loads((SCHEMAS / f"{manifest['kind'].lower()}.json").read_text())
    return [f"{error.json_path}: {error.message}" for error in validators.Draft202012Validator(strict(schema)).iter_errors(manifest)]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid_by_the_schemas_of_their_kinds(path):
    manifest = yaml.safe_load(path.read_text())
    assert complaints(manifest) == []
    manifest["spec"]["backofLimit"] = 3
    assert complaints(manifest) == ["$.spec: Additional properties are not allowed ('backofLimit' was unexpected)"]


def test_the_command_of_the_job_set_is_one_run_over_all_its_pods():
    spec = yaml.safe_load((DOCS / "launch" / "jobset_hosts.yaml").read_text())
    (job,) = spec["spec"]["replicatedJobs"]
    pods = job["template"]["spec"]
    (container,) = pods["template"]["spec"]["containers"]
    command = parse(WIKI, [word.replace("$(JOB_COMPLETION_INDEX)", "3") for word in container["args"]])
    assert container["command"][2] == "experiments.wiki"
    assert command.distributed.num_processes == pods["parallelism"] == pods["completions"] == 4
    host = f"{spec['metadata']['name']}-{job['name']}-0-0.{spec['metadata']['name']}:1234"
    assert command.distributed.coordinator_address == host


def test_the_command_of_the_ray_job_is_a_sweep():
    words = yaml.safe_load((DOCS / "launch" / "kuberay.yaml").read_text())["spec"]["entrypoint"].split()
    names, ours, others = split(words[3:], Options)
    assert (words[:3], names, others) == (["python", "-m", "experiments.sweep"], ["copy_memory", "adding"], [])
    assert parse_dataclass(Options, ours, "", "", Options()).engine == "ray"


PAGES = sorted(DOCS.glob("*.md"))
WITH_COMMANDS = [*PAGES, ROOT / "README.md"]
PLACEHOLDERS = {"DIR": "data", "RUN_DIRECTORY": "run", "FOLDER": "tunes"}


@pytest.mark.parametrize("path", [*WITH_COMMANDS, *SCRIPTS], ids=lambda path: path.name)
def test_modules_and_files_that_are_named_exist(path):
    text = path.read_text()
    for name in re.findall(r"-m (experiments(?:\.\w+)?)\b", text):
        assert name == "experiments.NAME" or importlib.util.find_spec(name), f"{path.name} names {name}"
    for name in re.findall(r"\]\(([\w./]+)(?:#[\w-]+)?\)", text):
        exists = (path.parent / name).exists() or name in {"reproduction/index.md", "contributing.md"}  # pages of the site alone
        assert exists, f"{path.name} names {name}"


def commands():
    """Yield every command line of an experiment that a page shows, without its comment."""
    for path in WITH_COMMANDS:
        for block in re.findall(r"```sh\n(.*?)```", path.read_text(), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = line.partition("#")[0].split()
                if words[:2] == ["python", "-m"] and words[2].startswith("experiments.") and "..." not in words:
                    yield path.name, words[2].removeprefix("experiments."), [PLACEHOLDERS.get(word, word.strip('"')) for word in words[3:]]


@pytest.mark.parametrize(("page", "name", "words"), list(commands()), ids=lambda value: value if isinstance(value, str) else None)
def test_commands_are_understood(page, name, words):
    """Flags are parsed where an experiment is trained; subcommands exist."""
    experiment = getattr(experiments.module(name), "EXPERIMENT", None)
    if experiment is None or "--import" in words:
        return
    if words and not words[0].startswith("-"):
        assert words[0] in experiment.subcommands, f"{page}: {name} {words[0]}"
    else:
        parse(experiment, words)


def test_every_page_is_in_the_navigation():
    """Pages that mkdocs.yml does not list cannot be found."""
    listed = re.findall(r"([\w/]+\.md)\s*$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert pages - set(listed) == set()
    assert set(listed) - pages == {"index.md", "reproduction/index.md", "contributing.md"}


def test_every_cell_is_documented_with_its_number_of_matrices():
    rows = re.findall(r"^\| (`.*?`) \|.*?\| ([\dL ,-]+) \|", (DOCS / "cells.md").read_text(), re.MULTILINE)
    found = {}
    for names, counts in rows:
        of_row = re.findall(r"`(\w+)`", names)
        each = [count.strip() for count in counts.split(",")]
        found |= dict(zip(of_row, each if len(each) > 1 else each * len(of_row), strict=True))
    assert found.keys() == CELLS.keys()
    for name, count in found.items():
        for depth in (1, 3) if CELLS[name].deep else (1,):
            leaves = jax.tree.leaves(CELLS[name].template(CellSpec(8, 8, depth=depth)))
            matrices = sum(isinstance(leaf, MatrixSpec) and leaf.role == "recurrent" for leaf in leaves)
            assert eval(re.sub(r"(\d) L", r"\1 * L", count), {"L": depth}) == matrices, name


def test_every_parametrization_has_a_row():
    text = (DOCS / "parametrizations.md").read_text()
    for kind in FORMS:
        name = kind.removesuffix("_plus_diagonal")
        assert f"| `{kind}` |" in text or (f"`{name}`" in text and "`NAME_plus_diagonal`" in text), kind


def test_every_recipe_has_a_row_with_its_learning_rate():
    rows = re.findall(r"^\| `(\w+)` \|.*?\| ([\d.]+) \| (yes|no) \|", (DOCS / "optimizers.md").read_text(), re.MULTILINE)
    found = {name: (float(rate), recovers == "yes") for name, rate, recovers in rows}
    assert found == {
        name: (recipe.learning_rate, recoveries(recipe.build(1e-3).init({"kernel": jnp.zeros((1, 1))})) is not None)
        for name, recipe in RECIPES.items()
    }


def test_the_terms_are_in_alphabetical_order():
    terms = re.findall(r"^\| ([\w ,-]+?) \| [A-Z]", (DOCS / "terms.md").read_text(), re.MULTILINE)
    assert len(terms) == 27
    assert terms == sorted(terms, key=str.casefold)


def test_equations_of_docstrings_become_those_of_the_site():
    path = DOCS / "extensions" / "equations.py"
    spec = importlib.util.spec_from_file_location("equations", path)
    module = importlib.util.module_from_spec(spec)
    pytest.importorskip("griffe")
    spec.loader.exec_module(module)
    text = "Add :math:`a`.\n\n.. math::\n    a \\\\\n    b\n\nEnd."
    assert module.as_markdown(text) == "Add $a$.\n\n\n$$\n\\begin{gathered}\na \\\\\nb\n\\end{gathered}\n$$\n\nEnd."
