# Written from rtm/stages/reference.py by rtm/pipeline/rules.py; change the stage, not this file.


# Extract the features of a dataset for a protocol; generated images are compared with them.
rule reference:
    input:
        plan.inputs(
            "reference",
            dataset="{root}data/{dataset}/images.npy",
            network="{root}weights/{network}.safetensors",
        ),
    output:
        "{root}features/{dataset}/{protocol}.safetensors",
    log:
        "{root}logs/reference/{dataset}/{protocol}.log",
    group: "reference"
    threads: plan.threads("reference")
    resources:
        **plan.resources("reference"),
        measuring=1,
    shell:
        "rtm make '{wildcards.root}reference/{wildcards.dataset}/{wildcards.protocol}' > {log:q} 2>&1"
