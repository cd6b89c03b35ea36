#include "tools/viz/data/page_data.h"

namespace genesis::viz {

Json page_data(PageParts parts, const Tables& tables) {
  Json data{{"version", 1}, {"made_by", "Genesis " GENESIS_VERSION}, {"title", parts.title}};
  if (!parts.view.empty()) data["view"] = parts.view;
  tables.write(data);
  data["models"] = std::move(parts.models);
  data["runs"] = std::move(parts.runs);
  if (!parts.difference.is_null()) data["difference"] = std::move(parts.difference);
  if (!parts.live.is_null()) data["live"] = std::move(parts.live);
  if (!parts.numerics.is_null()) data["numerics"] = std::move(parts.numerics);
  return data;
}

}  // namespace genesis::viz
