# From data to LaTeX, at four scales: paper (here), demo (demo/), desk (desk/) and smoke (smoke/).
#
#   data/<dataset>/images.npy             prepared images
#   weights/<network>.safetensors         frozen networks
#   features/<dataset>/<protocol>         features of real images
#   checkpoints/<experiment>/seed<n>      trained weights
#   galleries/<experiment>/seed<n>.npz    images to look at
#   results/<experiment>/
#     <protocol>/seed<n>.json             metrics
#     latency.json                        cost of an image
#     metrics.json                        mean and deviation over the seeds
#   reports/<table>.tex                   tables and figures
#   reports/index.html                    the page with everything
#   lineage/<stage>/<name>.json           receipts: what each file was made from
#
# Each stage is a class in rtm/stages/; its rule in workflow/rules/ is written from it. Receipts decide which jobs run
# (rtm/lineage/freshness.py), never time stamps.

import sys

from rtm.pipeline.rules import write_rules
from rtm.pipeline.snakemake import Plan, one_sentence
from rtm.pipeline.targets import check_targets

with one_sentence():
    plan = Plan(workflow, ancient, config)
    check_targets(plan.graph, sys.argv[1:])


# an image with this project installed; used only with `--software-deployment-method apptainer`
container: config.get("container", "rtm.sif")


wildcard_constraints:
    **plan.wildcards(),


onstart:
    plan.announce()


rule all:
    input:
        plan.reports("paper"),


rule demo:
    input:
        plan.reports("demo"),


rule desk:
    input:
        plan.reports("desk"),


rule smoke:
    input:
        plan.reports("smoke"),


for path in write_rules():

    include: path


include: "workflow/rules/doctor.smk"


localrules:
    all,
    demo,
    desk,
    smoke,
    doctor,
