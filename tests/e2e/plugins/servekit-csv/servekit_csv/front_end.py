from flask import Blueprint

from servekit.errors import MethodNotAllowed
from servekit.extension import HttpResponse, PredictionCall, Protocol, error_fields, error_message


class Csv(Protocol):
    paths = ("/csv/",)
    envelope = "servekit_csv.envelope:Rows"

    def find(self, head):
        if head.method != b"POST":
            return MethodNotAllowed("allowed here: POST")
        return PredictionCall(model=head.path.decode().removeprefix("/csv/"))

    def error_response(self, error, request_id):
        text = f"error\n{error_message(error)}\n".encode()
        return HttpResponse(error.status, text, "text/csv", fields=error_fields(error))


def create_page(server):
    pages = Blueprint("csv", __name__)

    @pages.get("/csv")
    def page():
        return "".join(f"<p>curl --data-binary @rows.csv /csv/{name}" for name in server.models)

    return pages
