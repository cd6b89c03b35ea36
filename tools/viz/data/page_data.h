// Assembles the data of a whole page: `PageData` of tools/viz/page/data.d.ts.
#pragma once

#include <string>

#include "tools/viz/data/tables.h"

namespace genesis::viz {

// The contents of a page. Empty ones are not shown.
struct PageParts {
  std::string title, view;  // view: the one to open first
  Json models = Json::array(), runs = Json::array();
  Json difference, live, numerics;
};

Json page_data(PageParts parts, const Tables& tables);

}  // namespace genesis::viz
