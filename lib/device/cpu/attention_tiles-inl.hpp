// What the forward and the backward pass of attention share.
#if defined(GPT_DEVICE_CPU_ATTENTION_TILES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef GPT_DEVICE_CPU_ATTENTION_TILES_INL_HPP
#undef GPT_DEVICE_CPU_ATTENTION_TILES_INL_HPP
#else
#define GPT_DEVICE_CPU_ATTENTION_TILES_INL_HPP
#endif

#include "device/cpu/attention_heads.hpp"
#include "device/cpu/bfloat16-inl.hpp"
#include "device/cpu/dropout-inl.hpp"
#include "device/cpu/tile_product-inl.hpp"

#include <algorithm>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

/// Causality is resolved in groups of this many rows: a diagonal tile is worked on up to the group of the
/// diagonal, and inside that group masked. A multiple of every vector's length.
inline constexpr int64_t causal_group = 16;

/// A tile of scores, stored by key: element (key, query) at key·attention_tile + query, so that a vector
/// holds many queries and the softmax needs no sums across its lanes.
struct ScoreTile {
  int64_t first_query;
  int64_t first_key;
  int64_t queries;
  int64_t keys;

  bool diagonal() const { return first_query == first_key; }
  /// Queries that are worked on: of those behind the last one nothing is kept.
  template <class Words>
  int64_t padded_queries() const {
    return round_up(queries, std::max(lanes, Words::grain));
  }
  /// Keys that all queries from `begin` on may see.
  int64_t keys_of_all(int64_t begin) const { return diagonal() ? std::min(keys, begin) : keys; }
  /// Keys that the queries [.., end) of the tile may see, rounded up to the causal group.
  int64_t keys_before(int64_t end) const {
    return diagonal() ? std::min(keys, round_up(end, causal_group)) : keys;
  }
};

/// For words whose products need nothing of the thread.
struct NoScope {};

/// Words of one f32 each, which a product multiplies one by one.
struct SingleWords {
  static constexpr int64_t terms = 1;
  /// Keys or queries that sums take at a time: weights up to a multiple of it are zero where there are none.
  static constexpr int64_t grain = terms;
  static constexpr bool scales_queries = true;
  /// Of results that are stored as bfloat16.
  using Rounding = PortableRounding;
  /// Weights as words hold them.
  using Weights = Vector;
  /// Whether sum_over_keys gives (d, query), attention_tile apart, instead of (query, d), `padded` apart.
  static constexpr bool transposes_sums_over_keys = false;
  /// Lives while a thread multiplies.
  using Scope = NoScope;

  static HWY_INLINE Weights rounded(Vector weights) { return weights; }

  static HWY_INLINE Vector multiply_add(Vector left, Vector right, Vector sum) {
    return hn::MulAdd(left, right, sum);
  }

  /// Copies rows of head_size elements, `stride` apart, to rows of `padded` floats with zeros behind, times
  /// `scale`.
  template <class Element>
  static HWY_INLINE void pack_rows(float* out, const Element* in, int64_t stride, int64_t rows,
                                   const AttentionShape& shape, float scale) {
    const int64_t padded = shape.padded();
    const int64_t size = shape.head_size;
    const Vector factor = broadcast(scale);
    for (int64_t i = 0; i < rows; ++i) {
      const Element* from = in + i * stride;
      float* to = out + i * padded;
      for_vectors(
          0, size, [&](int64_t d) HWY_ATTR { store(hn::Mul(load(from + d), factor), to + d); },
          [&](int64_t d, int64_t n) HWY_ATTR { store(hn::Mul(load_n(from + d, n), factor), to + d); });
      for (int64_t d = round_up(size, lanes); d < padded; d += lanes) store(broadcast(0.0F), to + d);
    }
  }

  /// The same rows for a product that sums over them.
  template <class Element>
  static HWY_INLINE void pack_summed_rows(float* out, const Element* in, int64_t stride, int64_t rows,
                                          const AttentionShape& shape) {
    pack_rows(out, in, stride, rows, shape, 1.0F);
  }

  /// Keys or values for sum_over_keys; `spare` holds (attention_tile, padded) floats.
  template <class Element>
  static HWY_INLINE void pack_keys_to_sum(float* out, float* /*spare*/, const Element* in, int64_t stride,
                                          const AttentionShape& shape) {
    pack_rows(out, in, stride, shape.positions, shape, 1.0F);
  }

  /// Weights of as many keys as a word has terms, for a product that sums over keys.
  static HWY_INLINE void store_by_key(const Weights (&weights)[terms], float* place) {
    store(weights[0], place);
  }
  /// Weights of a key's queries [q, q + lanes), for a product that sums over queries.
  static HWY_INLINE void store_by_query(Weights weights, float* row, int64_t q) { store(weights, row + q); }
};

/// A score as the product gave it, times 1/√head_size where the queries did not bring that factor.
template <class Words>
HWY_INLINE Vector scaled_score(Vector score, float scale) {
  return Words::scales_queries ? score : hn::Mul(score, broadcast(scale));
}

/// Copies packed rows back to rows of head_size, `stride` apart, times `scale`.
template <class Rounding, class Element>
HWY_INLINE void unpack_rows(Element* out, int64_t stride, const float* in, int64_t rows,
                            const AttentionShape& shape, float scale) {
  const Vector factor = broadcast(scale);
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = in + i * shape.padded();
    Element* to = out + i * stride;
    for_vectors(
        0, shape.head_size,
        [&](int64_t d) HWY_ATTR { Rounding::store(hn::Mul(load(from + d), factor), to + d); },
        [&](int64_t d, int64_t n) HWY_ATTR { store_n(hn::Mul(load(from + d), factor), to + d, n); });
  }
}

/// Packs a tile's rows and their transpose (padded, attention_tile); missing rows are zero.
template <class Words, class Element>
HWY_INLINE void pack_query_tile(float* packed, float* transposed, const Element* in, int64_t stride,
                                int64_t rows, const AttentionShape& shape, float scale) {
  const int64_t words = shape.padded() / Words::terms;
  Words::pack_rows(packed, in, stride, rows, shape, scale);
  std::fill(packed + rows * words, packed + attention_tile * words, 0.0F);
  transpose(transposed, attention_tile, packed, words, round_up(rows, std::max(causal_group, Words::grain)),
            words);
}

/// out(key, query) = Σ over d of rows(key, d)·columns(d, query)
template <class Words>
HWY_INLINE void score_product(float* out, const ScoreTile& tile, const float* rows, const float* columns,
                              const AttentionShape& shape) {
  const int64_t panel = 2 * lanes;
  const int64_t queries = tile.padded_queries<Words>();
  for (int64_t q = 0; q < queries; q += panel) {
    const int64_t width = std::min(panel, queries - q);
    tile_product<Words>(out + q, attention_tile, {rows, shape.padded() / Words::terms, 1}, columns + q,
                        attention_tile, tile.keys_before(q + width), width,
                        ceil_div(shape.head_size, Words::terms), false);
  }
}

/// out(query, d) = or += Σ over keys of weights(key, query)·rows(key, d)
template <class Words>
HWY_INLINE void sum_over_keys(float* out, const ScoreTile& tile, const float* weights, const float* rows,
                              const AttentionShape& shape, bool accumulate) {
  const int64_t padded = shape.padded();
  const int64_t group = tile.diagonal() ? causal_group : attention_tile;
  for (int64_t q = 0; q < tile.queries; q += group) {
    const int64_t count = std::min(group, tile.queries - q);
    tile_product<Words>(out + q * padded, padded, {weights + q, 1, Words::terms * attention_tile}, rows,
                        padded, count, padded, ceil_div(tile.keys_before(q + count), Words::terms),
                        accumulate);
  }
}

/// out(key, d) = or += Σ over queries of weights(key, query)·rows(query, d)
template <class Words>
HWY_INLINE void sum_over_queries(float* out, const ScoreTile& tile, const float* weights, const float* rows,
                                 const AttentionShape& shape, bool accumulate) {
  const int64_t padded = shape.padded();
  const int64_t group = tile.diagonal() ? causal_group : attention_tile;
  for (int64_t k = 0; k < tile.keys; k += group) {
    const int64_t count = std::min(group, tile.keys - k);
    const int64_t first = tile.diagonal() ? k : 0;
    tile_product<Words>(out + k * padded, padded,
                        {weights + k * attention_tile + first / Words::terms, attention_tile, 1},
                        rows + first / Words::terms * padded, padded, count, padded,
                        ceil_div(tile.queries - first, Words::terms), accumulate);
  }
}

/// Lanes whose query may see `key`, both counted inside a diagonal tile.
HWY_INLINE hn::Mask<FloatTag> may_see(int64_t first_query, int64_t key) {
  return hn::Ge(hn::Iota(float_tag, static_cast<float>(first_query)), broadcast(static_cast<float>(key)));
}

/// Calls work(k, masked) for every kTerms-th key of [0, keys): from `seen_by_all` on, a multiple of kTerms or
/// `keys`, `masked` is std::true_type, for the lanes' queries have to be told apart.
template <int64_t kTerms, class Work>
HWY_INLINE void for_keys(int64_t seen_by_all, int64_t keys, const Work& work) {
  for (int64_t k = 0; k < seen_by_all; k += kTerms) work(k, std::false_type());
  for (int64_t k = seen_by_all; k < keys; k += kTerms) work(k, std::true_type());
}

/// Scratch for the dropout of a tile: factors by query, by key, and of one row.
inline constexpr int64_t dropout_tile_floats =
    2 * attention_tile * attention_tile + attention_tile + dropout_slack;

/// Sums over keys by query: themselves, or their transpose in `spare` (attention_tile, padded).
template <class Words>
HWY_INLINE const float* by_query(const float* sums, [[maybe_unused]] float* spare, int64_t queries,
                                 const AttentionShape& shape) {
  if constexpr (!Words::transposes_sums_over_keys) return sums;
  transpose(spare, shape.padded(), sums, attention_tile, shape.padded(), round_up(queries, 4));
  return spare;
}

/// Factors of the tile's probabilities by key, or null without dropout. Element (query, key) of head h has
/// number (h·T + query)·T + key in its sequence.
template <class Words>
HWY_INLINE const float* dropout_tile(const ScoreTile& tile, const AttentionShape& shape, int64_t sequence,
                                     int64_t head, float* scratch) {
  if (!shape.dropout.active()) return nullptr;
  float* by_query = scratch;
  float* by_key = by_query + attention_tile * attention_tile;
  float* row = by_key + attention_tile * attention_tile;
  for (int64_t q = 0; q < tile.queries; ++q) {
    const int64_t first = (head * shape.positions + tile.first_query + q) * shape.positions + tile.first_key;
    std::copy_n(dropout_factors(shape.dropout, sequence, first, tile.keys, row), tile.keys,
                by_query + q * attention_tile);
  }
  // Vectors, and words of two queries, take in the lanes behind the last query: nothing old may stand there.
  const int64_t rows = tile.padded_queries<Words>();
  std::fill(by_query + tile.queries * attention_tile, by_query + rows * attention_tile, 0.0F);
  transpose(by_key, attention_tile, by_query, attention_tile, rows, round_up(tile.keys, 4));
  return by_key;
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
