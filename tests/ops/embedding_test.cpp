#include "harness.hpp"

#include <doctest/doctest.h>

using namespace gpt;
using namespace gpt::test;
using reference::EmbedSizes;

namespace {

// sequences, positions, width, vocabulary, context, first_position
constexpr EmbedSizes cases[] = {{1, 1, 1, 1, 1, 0},     {2, 7, 33, 5, 9, 0},     {1, 1, 64, 128, 16, 15},
                                {3, 65, 20, 50, 65, 0}, {1, 5, 48, 300, 70, 64}, {4, 64, 128, 65, 64, 0},
                                {3, 100, 8, 2, 100, 0}, {2, 150, 5, 1, 150, 0},  {2, 40, 3, 70000, 40, 0}};
constexpr Dropout none{};
constexpr Dropout dropping{.rate = 0.2F, .seed = 5, .step = 1, .site = 0, .first_sequence = 1000};

}  // namespace

TEST_CASE("embed agrees with the reference") {
  for (DType type : float_types)
    for (const EmbedSizes& s : cases)
      for (const Dropout& dropout : {none, dropping})
        for (const auto& device : devices()) {
          INFO(case_name("embed",
                         {s.sequences, s.positions, s.width, s.vocabulary, s.context, s.first_position}),
               " dropout ", dropout.rate, " in ", std::string(name_of(type)), " on ", device->name());
          const Tokens tokens = random_tokens(s.sequences * s.positions, s.vocabulary, 1);
          const Array wte = rounded(random_floats(s.vocabulary * s.width, 2), type);
          const Array wpe = rounded(random_floats(s.context * s.width, 3), type);
          const Guarded tokens_in({s.sequences, s.positions}, tokens);
          const Guarded wte_in(type, {s.vocabulary, s.width}, wte);
          const Guarded wpe_in(type, {s.context, s.width}, wpe);
          const Guarded x(DType::f32, {s.sequences, s.positions, s.width});
          const auto queue = device->make_queue();
          device->ops().embed(x, tokens_in, wte_in, wpe_in, s.first_position, dropout, *queue);
          CHECK(max_error(x.values(), reference::embed(s, tokens, wte, wpe, dropout)) < tolerance);
          CHECK(x.intact());
        }
}

TEST_CASE("embed_backward adds to the token table and writes or adds to the position table") {
  for (const EmbedSizes& s : cases)
    for (const Dropout& dropout : {none, dropping})
      for (Write wpe_write : {Write::overwrite, Write::accumulate})
        for (const auto& device : devices()) {
          INFO(case_name("embed_backward", {s.sequences, s.positions, s.width, s.vocabulary, s.context,
                                            wpe_write == Write::accumulate}),
               " dropout ", dropout.rate, " on ", device->name());
          const bool adds = wpe_write == Write::accumulate;
          const Tokens tokens = random_tokens(s.sequences * s.positions, s.vocabulary, 1);
          const Array dx = random_floats(s.sequences * s.positions * s.width, 2);
          const Array wte_before = random_floats(s.vocabulary * s.width, 3);
          const Array wpe_before = random_floats(s.context * s.width, 4);
          const auto expected = reference::embed_backward(s, dx, tokens, dropout);

          const Guarded tokens_in({s.sequences, s.positions}, tokens);
          const Guarded dx_in({s.sequences, s.positions, s.width}, dx);
          const Guarded d_wte({s.vocabulary, s.width}, wte_before);
          const Guarded d_wpe =
              adds ? Guarded({s.context, s.width}, wpe_before) : Guarded(DType::f32, {s.context, s.width});
          const auto queue = device->make_queue();
          device->ops().embed_backward(d_wte, d_wpe, dx_in, tokens_in, dropout, wpe_write, *queue);
          CHECK(max_error(d_wte.values(), expected.wte + wte_before) < tolerance);
          CHECK(max_error(d_wpe.values(), adds ? expected.wpe + wpe_before : expected.wpe) < tolerance);
          for (const Guarded* output : {&d_wte, &d_wpe, &dx_in}) CHECK(output->intact());
        }
}
