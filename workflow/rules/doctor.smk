# `snakemake --profile slurm doctor`: test a node for two minutes before a submission. Only the printed result is kept.


rule trial:
    output:
        temp("logs/doctor/{experiment}.txt"),
    log:
        "logs/doctor/{experiment}.log",
    threads: plan.trial_threads
    resources:
        nodes=1,
        **plan.trial(),
    shell:
        "rtm doctor --gpu {wildcards.experiment:q} 2>&1 | tee {log:q} > {output:q}"


rule doctor:
    input:
        plan.trials(),
    log:
        "logs/doctor/doctor.log",
    shell:
        "cat {input:q} | tee {log:q}"
