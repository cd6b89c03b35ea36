// A whole page's data: `PageData` of tools/viz/page/data.d.ts.
#pragma once

#include <string>

#include "tools/viz/data/tables.h"

namespace genesis::viz {

// What a page shows; parts that stay empty are not shown.
struct PageParts {
  std::string title, view;  // view: what to open first
  Json models = Json::array(), runs = Json::array();
  Json difference, live, numerics;
};

Json page_data(PageParts parts, const Tables& tables);

}  // namespace genesis::viz
