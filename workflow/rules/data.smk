# The inputs of every experiment: prepared images, frozen networks, and features of the training sets.


rule dataset:
    input:
        unpack(plan.needs("dataset")),
    output:
        images="{root}data/{dataset}/images.npy",
    log:
        "{root}logs/fetch/{dataset}.log",
    params:
        scale=plan.scale("dataset"),
    shell:
        "rtm fetch {wildcards.dataset:q} --scale {params.scale:q} > {log:q} 2>&1"


rule network:
    input:
        unpack(plan.needs("network")),
    output:
        weights="{root}weights/{network}.safetensors",
    log:
        "{root}logs/fetch/{network}.log",
    params:
        scale=plan.scale("network"),
    shell:
        "rtm fetch {wildcards.network:q} --scale {params.scale:q} > {log:q} 2>&1"


rule reference:
    input:
        unpack(plan.needs("reference")),
    output:
        features="{root}features/{dataset}/{protocol}.safetensors",
    log:
        "{root}logs/reference/{dataset}/{protocol}.log",
    params:
        scale=plan.scale("reference"),
    group:
        "reference"
    threads: plan.threads("reference")
    resources:
        measuring=1,
        **plan.compute("reference"),
    shell:
        "rtm reference {wildcards.dataset:q} {wildcards.protocol:q} --scale {params.scale:q} > {log:q} 2>&1"
