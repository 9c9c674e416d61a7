#include "device/cuda/element_type.hpp"
#include "device/cuda/heads.hpp"
#include "device/cuda/launch.hpp"
#include "device/cuda/packed.hpp"

namespace gpt {
namespace {

enum class Direction { apart, together };

/// Moves N elements a thread.
template <Direction direction, int N, class Element>
__global__ void move_heads_kernel(Element* to, const Element* from, HeadShape shape, int64_t first,
                                  int64_t count, int64_t parts) {
  const int64_t packs = shape.head_size / N;
  const int64_t all = parts * count * shape.positions * packs;
  for (int64_t i = grid_thread(); i < all; i += grid_threads()) {
    const int64_t d = i % packs * N;
    const int64_t position = i / packs % shape.positions;
    const int64_t head = i / (packs * shape.positions) % count;
    const int64_t part = i / (packs * shape.positions * count);
    const int64_t row = (first + head) / shape.heads * shape.positions + position;
    const int64_t together =
        (row * parts + part) * shape.width() + (first + head) % shape.heads * shape.head_size + d;
    if constexpr (direction == Direction::apart)
      store_pack<N>(to + i * N, load_pack<N>(from + together));
    else
      store_pack<N>(to + together, load_pack<N>(from + i * N));
  }
}

template <Direction direction, class Element>
void move_heads(Element* to, const Element* from, const HeadShape& shape, Range range, int64_t parts,
                cudaStream_t stream) {
  constexpr int most = 16 / sizeof(Element);
  with_pack<most>(shape.head_size % most == 0 && aligned(to, from),
                  [&]<int N>(std::integral_constant<int, N>) {
                    const int64_t packs = parts * range.size() * shape.elements() / N;
                    launch(move_heads_kernel<direction, N, Element>, grid_over(packs), stream, to, from,
                           shape, range.begin, range.size(), parts);
                  });
}

}  // namespace

void take_heads_apart(float* apart, const float* together, const HeadShape& shape, Range range, int64_t parts,
                      cudaStream_t stream) {
  move_heads<Direction::apart>(apart, together, shape, range, parts, stream);
}
void take_heads_apart(bfloat16* apart, const bfloat16* together, const HeadShape& shape, Range range,
                      int64_t parts, cudaStream_t stream) {
  move_heads<Direction::apart>(apart, together, shape, range, parts, stream);
}

void put_heads_together(float* together, const float* apart, const HeadShape& shape, Range range,
                        int64_t parts, cudaStream_t stream) {
  move_heads<Direction::together>(together, apart, shape, range, parts, stream);
}
void put_heads_together(bfloat16* together, const bfloat16* apart, const HeadShape& shape, Range range,
                        int64_t parts, cudaStream_t stream) {
  move_heads<Direction::together>(together, apart, shape, range, parts, stream);
}

}  // namespace gpt
