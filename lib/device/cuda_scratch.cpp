#include "device/cuda_scratch.hpp"

#include "device/cuda/scratch_areas.hpp"
#include "device/row_tiles.hpp"

#include <algorithm>

namespace gpt {

int64_t cuda_scratch_bytes(const ScratchShape& shape, const CudaOptions& options) {
  const int64_t rows = shape.sequences * shape.context, all = shape.sequences * shape.heads;
  const HeadShape heads{
      .positions = shape.context, .heads = shape.heads, .head_size = shape.width / shape.heads};
  // What cuDNN refuses is our own attention's.
  const int64_t fused = options.cudnn_attention && shape.type == DType::bf16
                            ? cudnn_attention_bytes(heads, shape.sequences)
                            : 0;
  const int64_t operations =
      std::max({fused, AttentionAreas(heads, all, shape.type, options.attention_scratch).total,
                AttentionBackwardAreas(heads, all, shape.type, options.attention_scratch).total,
                ClassifierAreas(rows, classifier_tile_rows(rows), shape.rows_of_classifier, shape.type).total,
                EmbeddingAreas(rows, shape.width).total, norm_partial_bytes(rows, shape.width),
                column_sum_bytes(rows, 4 * shape.width)});
  return operations + cublas_workspace_bytes;
}

}  // namespace gpt
