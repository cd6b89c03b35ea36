// JSON, free or by a schema, as a grammar.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/grammar/grammar.h"

namespace genesis::grammar {

// Adds a JSON object with any contents. Between tokens stand up to one blank, or a line break with up to 20 blanks, so that a
// text cannot go on with blanks for ever.
Grammar::Rule add_json_object(Grammar& grammar);

// Adds the JSON values that satisfy a schema: type, enum, const, properties (in the order of the schema), required,
// additionalProperties, items, minItems, maxItems, minLength, maxLength, pattern, anyOf, oneOf (as anyOf), allOf with one schema,
// and $ref to a part of the schema itself. Without additionalProperties an object has the named properties only. Throws Error
// that names the place of anything else that restricts values: it is never ignored.
Grammar::Rule add_json_schema(Grammar& grammar, const nlohmann::ordered_json& schema);

}  // namespace genesis::grammar
