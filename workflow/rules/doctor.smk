# `snakemake --profile slurm doctor`: two minutes on a node before a submission. Nothing is kept but the printed answer.


rule trial:
    output:
        temp("logs/doctor/{experiment}.txt"),
    threads: plan.trial_threads
    resources:
        nodes=1,
        **plan.trial(),
    shell:
        "rtm doctor --gpu {wildcards.experiment} > {output} 2>&1"


rule doctor:
    input:
        plan.trials(),
    shell:
        "cat {input}"
