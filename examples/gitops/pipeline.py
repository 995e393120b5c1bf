"""Takes out rows that cannot be right, trains on the others, and keeps a good model."""

from kfp import dsl
from trireme import WORKSPACE, checkout, dataset, evaluate, export, finishing, good_enough, train


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def clean(data: str, highest_alcohol: float) -> str:
    """Leaves out wines of more alcohol than wine can have; returns the folder of the others."""
    import csv
    from pathlib import Path

    cleaned = Path(data).with_name("cleaned")
    cleaned.mkdir(exist_ok=True)
    for file in Path(data).glob("*.csv"):
        with file.open() as source, (cleaned / file.name).open("w") as target:
            rows = csv.DictReader(source)
            writer = csv.DictWriter(target, rows.fieldnames)
            writer.writeheader()
            kept = [row for row in rows if float(row["alcohol"]) <= highest_alcohol]
            writer.writerows(kept)
        print(f"{file.name}: {len(kept)} rows are left")
    return str(cleaned)


@dsl.pipeline(name="wines", pipeline_config=WORKSPACE)
def wines(code_url: str, dataset_uri: str, epochs: int = 200, highest_alcohol: float = 16.0):
    with finishing("wines"):
        code, data = checkout(code_url), dataset(dataset_uri)
        cleaned = clean(data=data.outputs["path"], highest_alcohol=highest_alcohol)
        trained = train(
            code,
            cleaned,
            entrypoint="train.py",
            args=["--data", "$(DATA_DIR)", "--epochs", f"{epochs}"],
        )
        evaluated = evaluate(trained, code, cleaned, entrypoint="train.py", model_name="wines")
        with good_enough(evaluated):
            export(evaluated, trained, code, cleaned, entrypoint="train.py", model_name="wines")
