// Regular expressions as grammars. The whole text matches: ^ and $ may stand at the ends of it and of
// its alternatives.
#pragma once

#include <functional>
#include <string_view>

#include "models/grammar/grammar.h"

namespace genesis::grammar {

// Adds a character of the ranges as it is written in the text; empty: as UTF-8. In JSON, some characters are escaped.
using MakeCharacters = std::function<Grammar::Rule(const Ranges& ranges)>;

// Adds the expression to the grammar. Supported: characters, '.', classes such as [a-z] and [^"], \d \w \s and their opposites,
// groups ( ) and (?: ), |, * + ? {m,n}. Throws Error, with the place, for anything else: lookaround, references, anchors inside,
// \b.
Grammar::Rule add_regex(Grammar& grammar, std::string_view expression, const MakeCharacters& characters = {});
// Adds the texts that have a part that matches: where an alternative of the whole expression does not begin with ^ or end with $,
// anything may stand there.
Grammar::Rule add_regex_search(Grammar& grammar, std::string_view expression,
                               const MakeCharacters& characters = {});

}  // namespace genesis::grammar
