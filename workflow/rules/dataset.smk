# Written from rtm/stages/dataset.py by rtm/pipeline/rules.py; change the stage, not this file.


localrules:
    dataset,


# Fetch and prepare the images of a dataset.
rule dataset:
    input:
        plan.inputs(
            "dataset",
            dataset="{root}data/{dataset}/images.npy",
        ),
    output:
        "{root}data/{dataset}/images.npy",
        "{root}data/{dataset}/meta.json",
    log:
        "{root}logs/dataset/{dataset}.log",
    shell:
        "rtm make '{wildcards.root}dataset/{wildcards.dataset}' > {log:q} 2>&1"
