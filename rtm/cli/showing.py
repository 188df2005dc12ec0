"""The verbs that show results and states: tables, figures, page, PDF, trainings, this machine."""

import json

from rtm.cli.context import Arguments, Context
from rtm.config import schema


def table(arguments: Arguments) -> None:
    """Render a table as LaTeX, CSV and Markdown, and print it."""
    from rtm.reports.tables import render_table
    from rtm.reports.terminal import print_table

    context, name = Context(arguments), arguments.name
    context.config.pick("tables", name)
    if arguments.available:
        sheet = render_table(context.config, context.layout, name, available=True)
    else:
        with context.recorded("table", name):
            sheet = render_table(context.config, context.layout, name)
    print_table(context.config, context.layout, sheet)


def figure(arguments: Arguments) -> None:
    """Draw a figure as PDF and PNG."""
    from rtm.reports.figures import render_figure

    context, name = Context(arguments), arguments.name
    context.config.pick("figures", name)
    with context.recorded("figure", name):
        render_figure(context.config, context.layout, name)


def report(arguments: Arguments) -> None:
    """Write one page for a browser with all results so far."""
    from rtm.page.html import write_page
    from rtm.reports.status import statuses

    context = Context(arguments)
    runs = statuses(context.config)
    with context.recorded("report", "index"):
        print(write_page(context.config, context.layout, runs))


def pdf(arguments: Arguments) -> None:
    """Put all existing tables and figures into one PDF."""
    from rtm.reports.pdf import compile_pdf, write_report

    context = Context(arguments)
    print(compile_pdf(write_report(context.config, context.layout)))


def status(arguments: Arguments) -> None:
    """Show every training: state, step, speed, time left, GPU-hours, job and loss."""
    from rtm.cli.status import show

    show(arguments.scale, arguments.watch)


def doctor(arguments: Arguments) -> None:
    """Show what works on this machine and how to get the rest; --gpu tests the GPUs and a training on them."""
    from rtm.cli.doctor import examine, show

    config = Context(arguments).config
    if arguments.gpu is None:
        show(examine(config))
    else:
        from rtm.cli.gpu import examine as try_gpus

        show(try_gpus(config, arguments.gpu))


def plan(arguments: Arguments) -> None:
    """Predict what trainings cost on a GPU (memory, and hours by part), beside the hours that they ask for."""
    from rtm.cli.plan import show

    show(Context(arguments).config, arguments.name, arguments.gpu, arguments.gpus)


def print_schema(arguments: Arguments) -> None:
    """Print the JSON schema of params/, for editors; a copy is in params/schema.json."""
    print(json.dumps(schema(), indent=2))
