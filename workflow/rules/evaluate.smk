# Numbers from checkpoints: samples, metrics of each protocol, cost of an image, and the mean over the seeds.


rule sample:
    input:
        unpack(plan.needs("sample")),
    output:
        images=temp(directory("{root}samples/{experiment}/seed{seed}")),
    log:
        "{root}logs/sample/{experiment}/seed{seed}.log",
    params:
        scale=plan.scale("sample"),
    group:
        "measure_{root}{experiment}_seed{seed}"
    threads: plan.threads("sample")
    resources:
        measuring=1,
        **plan.compute("sample"),
    shell:
        "rtm sample {wildcards.experiment:q} --seed {wildcards.seed:q} --scale {params.scale:q} > {log:q} 2>&1"


rule gallery:
    input:
        unpack(plan.needs("gallery")),
    output:
        images="{root}galleries/{experiment}/seed{seed}.npz",
    log:
        "{root}logs/gallery/{experiment}/seed{seed}.log",
    params:
        scale=plan.scale("gallery"),
    group:
        "measure_{root}{experiment}_seed{seed}"
    threads: plan.threads("gallery")
    resources:
        measuring=1,
        **plan.compute("gallery"),
    shell:
        "rtm gallery {wildcards.experiment:q} --seed {wildcards.seed:q} --scale {params.scale:q} > {log:q} 2>&1"


rule evaluate:
    input:
        unpack(plan.needs("evaluate")),
    output:
        metrics="{root}results/{experiment}/{protocol}/seed{seed}.json",
    log:
        "{root}logs/evaluate/{experiment}/{protocol}/seed{seed}.log",
    params:
        scale=plan.scale("evaluate"),
    group:
        "measure_{root}{experiment}_seed{seed}"
    threads: plan.threads("evaluate")
    resources:
        measuring=1,
        **plan.compute("evaluate"),
    shell:
        "rtm evaluate {wildcards.experiment:q} --protocol {wildcards.protocol:q} --seed {wildcards.seed:q}"
        " --scale {params.scale:q} > {log:q} 2>&1"


rule foreign:
    input:
        unpack(plan.needs("foreign")),
    output:
        metrics="{root}results/{foreign}/{protocol}.json",
    log:
        "{root}logs/foreign/{foreign}/{protocol}.log",
    params:
        scale=plan.scale("foreign"),
    threads: plan.threads("foreign")
    resources:
        **plan.compute("foreign"),
    shell:
        "rtm evaluate {wildcards.foreign:q} --protocol {wildcards.protocol:q} --scale {params.scale:q} > {log:q} 2>&1"


rule latency:
    input:
        unpack(plan.needs("latency")),
    output:
        cost="{root}results/{experiment}/latency.json",
    log:
        "{root}logs/latency/{experiment}.log",
    params:
        scale=plan.scale("latency"),
    group:
        plan.group("latency")
    threads: plan.all_threads("latency")
    resources:
        measuring=1,
        **plan.compute("latency"),
    shell:
        "rtm latency {wildcards.experiment:q} --scale {params.scale:q} > {log:q} 2>&1"


rule summary:
    input:
        unpack(plan.needs("summary")),
    output:
        metrics="{root}results/{experiment}/metrics.json",
        sweep="{root}results/{experiment}/sweep.csv",
    log:
        "{root}logs/summary/{experiment}.log",
    params:
        scale=plan.scale("summary"),
    shell:
        "rtm summary {wildcards.experiment:q} --scale {params.scale:q} > {log:q} 2>&1"
