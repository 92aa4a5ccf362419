import csv
import io

from servekit.extension import EncodedResponse, Envelope


class Rows(Envelope):
    def decode(self, request):
        return list(csv.DictReader(io.StringIO(bytes(request.body).decode())))

    def encode(self, request, outputs):
        text = "".join(f"{line}\n" for line in ["prediction", *outputs])
        return EncodedResponse(body=text.encode(), media_type="text/csv")
