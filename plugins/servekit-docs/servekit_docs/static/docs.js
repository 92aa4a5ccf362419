// SPDX-License-Identifier: Apache-2.0
"use strict";

SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null, // never send the description to anybody
});
