// Puts data into the visualizer's page, which is built from tools/viz/page/ as one HTML file and embedded.
#pragma once

#include <string>
#include <string_view>

#include "tools/viz/data/columns.h"

namespace genesis::viz {

// Returns the page's data as JSON in UTF-8. Bytes of names that are not UTF-8 become U+FFFD.
std::string data_text(const Json& data);

// `live`: the page may send requests to the server that it came from.
std::string page_html(const Json& data, bool live = false);

// Returns the Content-Security-Policy in the page's <meta>, for the HTTP header of a server.
std::string content_security_policy(const std::string& html);

// Writes the page, or only its data if the name ends in .json.
void write_page(const std::string& output, const Json& data);

// Compresses to zlib's format, which DecompressionStream of browsers calls "deflate".
std::string deflated(std::string_view text);
std::string base64(std::string_view bytes);

}  // namespace genesis::viz
