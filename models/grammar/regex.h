// Regular expressions as grammars. The whole text matches: ^ and $ may stand at the ends and change nothing.
#pragma once

#include <string_view>

#include "models/grammar/grammar.h"

namespace genesis::grammar {

// Adds the expression to the grammar. Supported: characters, '.', classes such as [a-z] and [^"], \d \w \s and their opposites,
// groups ( ) and (?: ), |, * + ? {m,n}. Throws Error, with the place, for anything else: lookaround, references, anchors inside,
// \b.
Grammar::Rule add_regex(Grammar& grammar, std::string_view expression);

}  // namespace genesis::grammar
