from servekit import hookimpl
from servekit.extension import Command, Routes


@hookimpl
def register_protocols(server):
    from servekit_csv.front_end import Csv

    return [Csv()]


@hookimpl
def register_routes(server):
    from servekit_csv.front_end import create_page

    return [Routes(blueprint=create_page(server), links={"csv": "/csv"})]


@hookimpl
def register_commands():
    return [Command("csv", "predict for each row of a CSV file", "servekit_csv.command:configure")]
