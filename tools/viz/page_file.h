// The visualizer's page as one HTML file: the page of tools/viz/page/, which the build embeds, with data in it.
#pragma once

#include <string>
#include <string_view>

#include "tools/viz/data/columns.h"

namespace genesis::viz {

// The page's data as text: JSON in UTF-8. Bytes of names that are not UTF-8 become U+FFFD.
std::string data_text(const Json& data);

// `live`: for a page that may ask the server it came from.
std::string page_html(const Json& data, bool live = false);

// The Content-Security-Policy that a page names in its <meta>, for the header of a server.
std::string content_security_policy(const std::string& html);

// Writes a page, or its data alone where the name ends in .json.
void write_page(const std::string& output, const Json& data);

// zlib's format, which a browser's DecompressionStream calls "deflate".
std::string deflated(std::string_view text);
std::string base64(std::string_view bytes);

}  // namespace genesis::viz
