#pragma once

#include "model/config.hpp"
#include "model/layout.hpp"
#include "ops/reference.hpp"

namespace gpt::reference {

/// Summed loss of a GPT in double precision, made of the operations that reference_test.cpp proves.
/// Dropout's sites: 0 the embeddings; of layer l 1 + 3·l attention's probabilities, 2 + 3·l what attention
/// adds, 3 + 3·l what the MLP adds.
/// @param weights  in the order of `layout`
/// @param inputs, targets  (B,T), T the model's context
/// @param dropout  of all sites
double model_loss(const GptConfig& config, const Layout& layout, const Array& weights, const Tokens& inputs,
                  const Tokens& targets, const Dropout& dropout);

}  // namespace gpt::reference
