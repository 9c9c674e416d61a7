"""Single-edit mistakes in the CUDA backend: each compiles, and changes what the code does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    file: str
    what: str  # is wrong then
    old: str  # stands in the file once
    new: str
    near: str = ""  # the test that is closest to it, which is tried first
    unseen: str = ""  # why no test on the stand-in can see it


def _in(room):
    return lambda file, *rest, **named: Mutation(f"lib/{room}/{file}", *rest, **named)


_device = _in("device/cuda")
_nccl = _in("comm/nccl")

MUTATIONS = [
    # Queues, events, memory
    _device(
        "cuda_queue.cpp", "an event is recorded in the default stream",
        "check_cuda(cudaEventRecord(static_cast<CudaEvent&>(event).handle(), stream()));",
        "check_cuda(cudaEventRecord(static_cast<CudaEvent&>(event).handle(), nullptr));",
        near="cuda",
    ),
    _device(
        "cuda_queue.cpp", "a queue does not wait for an event",
        "check_cuda(cudaStreamWaitEvent(stream(), static_cast<CudaEvent&>(event).handle(), 0));",
        "static_cast<void>(event);",
        near="cuda",
    ),
    _device(
        "cuda_queue.cpp", "pinned memory of a copy is taken for free while the copy waits",
        "  check_cuda(cudaEventRecord(slot.used.get(), stream()));\n",
        "",
        near="cuda",
    ),
    _device(
        "cuda_queue.cpp", "what comes to the host is taken from pinned memory before the stream has put it there",
        "host([to = dst.raw(), from = slot.memory.data(), bytes] { std::memcpy(to, from, bytes); });",
        "std::memcpy(dst.raw(), slot.memory.data(), bytes);",
        near="cuda",
    ),
    _device(
        "cuda_queue.cpp", "a copy between host memories overtakes the stream",
        "host([to = dst.raw(), from = src.raw(), bytes] { std::memcpy(to, from, bytes); });",
        "std::memcpy(dst.raw(), src.raw(), bytes);",
        near="cuda",
    ),
    _device(
        "cuda_queue.cpp", "a queue ends without waiting for its work",
        "  cudaStreamSynchronize(stream());\n",
        "",
        near="cuda",
    ),
    _device(
        "cuda_queue.cpp", "waiting for an event does not tell what a host task threw",
        "  check_cuda(cudaEventSynchronize(handle_.get()));\n  failure_->rethrow();\n",
        "  check_cuda(cudaEventSynchronize(handle_.get()));\n",
        near="cuda",
    ),
    _device(
        "staging.cpp", "a piece of pinned memory that is too small is taken again",
        "    if (slot.memory.bytes() < bytes) continue;\n",
        "",
        near="cuda",
    ),
    _device(
        "memory.cpp", "memory that is moved forgets its size",
        "  std::swap(bytes_, other.bytes_);\n",
        "",
        near="cuda",
    ),
    _device(
        "device.cpp", "new memory is zeroed in a stream that no queue waits for",
        "    check_cuda(cudaStreamSynchronize(nullptr));\n",
        "",
        near="cuda",
    ),
    _device(
        "device.cpp", "every thread works on the first GPU",
        "check_cuda(cudaSetDevice(index));",
        "check_cuda(cudaSetDevice(0 * index));",
    ),
    _device(
        "check.cpp", "errors of CUDA other than full memory pass",
        "validate(status == cudaSuccess,",
        "validate(status != cudaErrorMemoryAllocation,",
        near="cuda",
    ),
    # Matrix products
    _device(
        "matrix_products.cpp", "products never add to what is there",
        "beta = product.accumulate ? 1.0F : 0.0F;",
        "beta = 0.0F;",
        near="ops/linear",
    ),
    _device(
        "matrix_products.cpp", "a known product has the bias and aux of its first call",
        "  if (!plan.possible) return false;\n  set_pointers(plan.product, product);\n",
        "  if (!plan.possible) return false;\n",
        near="ops/linear",
    ),
    _device(
        "matrix_products.cpp", "fp32 is cut to TF32 without being asked",
        "const bool cuts = tf32_ && product.a.type == DType::f32;",
        "const bool cuts = product.a.type == DType::f32;",
        near="ops/linear",
    ),
    _device(
        "matrix_products.cpp", "an algorithm is kept for other alignments, too",
        "leading_of(*matrix), matrix->stride, alignment_of(*matrix)})",
        "leading_of(*matrix), matrix->stride, int64_t{0}})",
        near="cuda",
    ),
    _device(
        "linear.cu", "bias sums of the epilogue overwrite those that they should be added to",
        "fused.bias = adds ? order.scratch(db.bytes()) : db.raw();",
        "fused.bias = db.raw();",
        near="ops/linear",
    ),
    _device(
        "linear.cu", "backward through GELU has the epilogue of a plain product",
        "fused.epilogue = Epilogue::gelu_slope;",
        "fused.epilogue = Epilogue::none;",
        near="ops/linear",
    ),
    _device(
        "few_rows.cu", "a result goes to a row as long as the inputs",
        "const int64_t at = row * linear.out + output;",
        "const int64_t at = row * linear.in + output;",
        near="ops/linear",
    ),
    _device(
        "sum_rows.cu", "rows are taken to lie side by side",
        "sum += to_float(x[row * shape.stride + column]);",
        "sum += to_float(x[row * shape.columns + column]);",
        near="ops/norm",
    ),
    # Attention
    _device(
        "attention.cu", "heads of a square lie one block apart",
        ".stride = positions * positions,",
        ".stride = keys.size() * queries.size(),",
        near="ops/attention",
    ),
    _device(
        "attention.cu", "the scores of a block end at its number of queries",
        "const int64_t keys = queries.end;",
        "const int64_t keys = queries.size();",
        near="ops/attention",
    ),
    _device(
        "attention_rows.cu", "a query's softmax counts the next key",
        "if (key + i < seen) own.add(values[i] * piece.scale);",
        "if (key + i <= seen) own.add(values[i] * piece.scale);",
        near="ops/attention",
    ),
    _device(
        "attention_rows.cu", "gradients of weights that were dropped come through",
        "      drop(d_scores, piece.dropout, row.sequence(shape), row.element + key);\n",
        "",
        near="ops/attention",
    ),
    _device(
        "attention_rows.cu", "dropout counts heads over all sequences",
        "element((head % piece.shape.heads * piece.shape.positions + query) * piece.shape.positions) {}",
        "element((head * piece.shape.positions + query) * piece.shape.positions) {}",
        near="ops/attention",
    ),
    _device(
        "attention_cached.cu", "warps are joined before all have written theirs",
        "    own[size + 1] = sum;\n  }\n  __syncthreads();\n",
        "    own[size + 1] = sum;\n  }\n",
        near="ops/attention",
    ),
    _device(
        "attention_cached.cu", "values that were weighted by a smaller largest score stay so",
        "own[d] = own[d] * shrink + value;",
        "own[d] = own[d] + value;",
        near="ops/attention",
    ),
    _device(
        "attention_cached.cu", "half a warp is missing in a mask",
        "__shfl_sync(all_lanes, weight, i);",
        "__shfl_sync(all_lanes >> 16, weight, i);",
        near="ops/attention",
    ),
    _device(
        "heads.cu", "a group of heads is taken from the first heads of its sequence",
        "(row * parts + part) * shape.width() + (first + head) % shape.heads * shape.head_size + d;",
        "(row * parts + part) * shape.width() + head % shape.heads * shape.head_size + d;",
        near="ops/attention",
    ),
    # Classifier, embedding, norms
    _device(
        "classifier.cu", "a tile's gradient of the weights overwrites those of the tiles before",
        ".accumulate = begin > 0 || write == Write::accumulate},",
        ".accumulate = write == Write::accumulate},",
        near="ops/classifier",
    ),
    _device(
        "classifier.cu", "without gradients, all tiles leave their losses in one place",
        "cross_entropy(losses + tile.begin, part, order.stream());",
        "cross_entropy(losses, part, order.stream());",
        near="ops/classifier",
    ),
    _device(
        "cross_entropy.cu", "padding beside the last token counts",
        "if (i + k >= tile.vocabulary || i + k == target) continue;",
        "if (i + k == target) continue;",
        near="ops/classifier",
    ),
    _device(
        "embedding.cu", "a token's gradient overwrites the classifier's",
        "float sum = begins_run ? to[column] : 0.0F;",
        "float sum = 0.0F;",
        near="ops/embedding",
    ),
    _device(
        "embedding.cu", "a run that begins with a window does not get its pieces from the windows behind",
        "order.begins_run(begin) || order.tokens[begin] != token;",
        "order.tokens[begin] != token;",
        near="ops/embedding",
    ),
    _device(
        "embedding.cu", "the position behind the last gets a gradient",
        "if (position < positions)\n",
        "if (position <= positions)\n",
        near="ops/embedding",
    ),
    _device(
        "token_order.cu", "tokens are sorted by their lowest digit only",
        "shift < 32 && (vocabulary - 1) >> shift > 0;",
        "shift < digit_bits && (vocabulary - 1) >> shift > 0;",
        near="ops/embedding",
    ),
    _device(
        "token_order.cu", "threads of the scan write before all have read",
        "totals[threadIdx.x - distance] : 0;\n    __syncthreads();\n",
        "totals[threadIdx.x - distance] : 0;\n",
        near="ops/embedding",
    ),
    _device(
        "norm.cu", "warps beyond the last row do not stop",
        "  if (row >= norm.rows) return;\n",
        "",
        near="ops/norm",
    ),
    _device(
        "norm.cu", "dropout counts positions over all sequences",
        "drop(delta, norm.dropout, row / norm.positions, row % norm.positions * norm.width + i);",
        "drop(delta, norm.dropout, row / norm.positions, row * norm.width + i);",
        near="ops/dropout",
    ),
    _device(
        "norm_backward.cu", "warps' sums are joined before all have written theirs",
        "    backward_of_row<N>(norm, row, own, own + width);\n  __syncthreads();\n",
        "    backward_of_row<N>(norm, row, own, own + width);\n",
        near="ops/norm",
    ),
    _device(
        "norm_backward.cu", "the gradient of the bias overwrites those of micro-batches before",
        ".stride = 2 * width},\n             adds, order.stream());",
        ".stride = 2 * width},\n             false, order.stream());",
        near="ops/norm",
    ),
    # Elements, sums, the optimiser
    _device(
        "elementwise.cu", "threads that take packs go on by elements",
        "i += grid_threads() * N) {\n    Floats<N> values{};",
        "i += grid_threads()) {\n    Floats<N> values{};",
        near="ops/optimizer",
    ),
    _device(
        "elementwise.cu", "NaN loses its bits when it is rounded",
        "rounded[k] = bfloat16(values[k]);",
        "rounded[k] = from_float<bfloat16>(values[k]);",
        near="ops/device",
    ),
    _device(
        "gelu.hpp", "the slope of GELU's cube lacks its factor",
        "(twice_root + 3.0F * twice_root * 0.044715F * x * x);",
        "(twice_root + twice_root * 0.044715F * x * x);",
        near="ops/linear",
    ),
    _device(
        "drop.hpp", "each micro-batch drops what the first one drops",
        "plan.first_sequence + static_cast<uint32_t>(index),",
        "static_cast<uint32_t>(index),",
        near="ops/dropout",
    ),
    _device(
        "sums.cu", "terms are overwritten while they are added",
        "      for (int64_t i = 0; i < here; ++i) sum += tile[i];\n    }\n    __syncthreads();\n",
        "      for (int64_t i = 0; i < here; ++i) sum += tile[i];\n    }\n",
        near="ops/optimizer",
    ),
    _device(
        "sums.cu", "no limit for the norm is a limit of zero",
        " == 0.0 || !(",
        " < 0.0 || !(",
        near="ops/optimizer",
    ),
    _device(
        "adamw.cu", "a step whose gradients are not finite is taken",
        ")] == 0.0) return;",
        ")] < 0.0) return;",
        near="ops/optimizer",
    ),
    _device(
        "adamw.cu", "parameters beyond those of the largest grid stay as they are",
        "i < arrays.size; i += grid_threads() * N)",
        "i < arrays.size; i += arrays.size)",
        near="ops/optimizer",
    ),
    _device(
        "adamw.cu", "packs go beyond the end",
        "const bool packs = arrays.size % 4 == 0 && aligned(",
        "const bool packs = aligned(",
        near="ops/optimizer",
    ),
    _device(
        "rounded_sum.cu", "a rank's own sum is not rounded",
        "sum[i] = to_float(from_float<bfloat16>(sum[i]));",
        "sum[i] = to_float(sum[i]);",
        near="cuda.nccl.np4",
    ),
    # What every kernel has
    _device(
        "packed.hpp", "bf16 is cut, not rounded",
        "return std::bit_cast<bfloat16>(__float2bfloat16_rn(value));",
        "return std::bit_cast<bfloat16>(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));",
        near="ops/optimizer",
    ),
    _device(
        "reduce.hpp", "a block's sum is taken before all warps have theirs",
        "  __syncthreads();\n  T total = 0;\n",
        "  T total = 0;\n",
        near="ops/classifier",
    ),
    _device(
        "launch.hpp", "kernels are started in the default stream",
        "  config.stream = stream;\n",
        "  static_cast<void>(stream);\n",
        near="cuda",
    ),
    # NCCL
    _nccl(
        "nccl_group.cpp", "a reduce-scatter has the count of all pieces",
        "check_nccl(ncclReduceScatter(data.raw(), mine.raw(), count_of(mine),",
        "check_nccl(ncclReduceScatter(data.raw(), mine.raw(), count_of(data),",
        near="cuda.nccl.np2",
    ),
    _nccl(
        "nccl_group.cpp", "an all-gather sends the first piece",
        "check_nccl(ncclAllGather(mine.raw(), data.raw(),",
        "check_nccl(ncclAllGather(data.raw(), data.raw(),",
        near="cuda.nccl.np2",
    ),
    _nccl(
        "nccl_group.cpp", "a reduction to one rank takes the largest",
        "nccl_type(data.dtype()), ncclSum, root, comm_,",
        "nccl_type(data.dtype()), ncclMax, root, comm_,",
        near="cuda.nccl.np3",
    ),
    _nccl(
        "nccl_group.cpp", "an all-reduce goes to the default stream",
        "nccl_type(in.dtype()), ncclSum, comm_,\n                           stream_of(queue)));",
        "nccl_type(in.dtype()), ncclSum, comm_,\n                           (static_cast<void>(queue), nullptr)));",
        near="cuda.nccl.np2",
    ),
    _nccl(
        "nccl_error.cpp", "f64 travels as f32",
        "return ncclFloat64;",
        "return ncclFloat32;",
        near="cuda.nccl.np2",
    ),
    _nccl(
        "nccl_error.cpp", "NCCL's errors other than a remote one pass",
        "if (result != ncclSuccess && result != ncclInProgress)",
        "if (result == ncclRemoteError)",
        near="cuda.nccl.np2",
    ),
    _nccl(
        "plain_hop.cpp", "every piece is summed on the first rank",
        "group_.reduce(piece(data, owner), owner, queue);",
        "group_.reduce(piece(data, owner), 0, queue);",
        near="cuda.nccl.np3",
    ),
    _nccl(
        "rounded_hop.cpp", "every other rank is sent one and the same piece",
        "group_.send(slot(leaving_, other, block), other, queue);",
        "group_.send(slot(leaving_, 0, block), other, queue);",
        near="cuda.nccl.np4",
    ),
    _nccl(
        "nccl_comm.cpp", "a block is spread in the node before it is summed between nodes",
        "        if (has_lane_) queue.wait(summed(i - 1));\n",
        "",
        near="cuda.nccl.np4",
    ),
    _nccl(
        "nccl_comm.cpp", "a block is summed between nodes before it is summed in the node",
        "          follow(between, queue, *ready_);\n",
        "",
        near="cuda.nccl.np4",
    ),
    _nccl(
        "nccl_comm.cpp", "the lane of a rank goes by its node",
        "return parts.flat(part_of(parts.size(), lanes_, place_.index));",
        "return parts.flat(part_of(parts.size(), lanes_, place_.node % lanes_));",
        near="cuda.nccl.np4",
    ),
    _nccl(
        "nccl_session.cpp", "ranks of a node are in reverse order",
        "node_ = all_.split(place.node, place.index);",
        "node_ = all_.split(place.node, world_.size() - place.index);",
        near="cuda.nccl.np4",
    ),
    _nccl(
        "nccl_session.cpp", "the watchdog does not give NCCL up",
        "[calls = calls_] { calls->abort(); });\n  }",
        "[calls = calls_] { static_cast<void>(calls); });\n  }",
        near="cuda.nccl_remote_failure",
    ),
    _nccl(
        "nccl_session.cpp", "giving up does not reach NCCL",
        "        calls->abort();\n        done->set_value();\n",
        "        done->set_value();\n",
        near="cuda.nccl.np2",
    ),
    _nccl(
        "nccl_calls.cpp", "communicators are not aborted",
        "for (const ncclComm_t comm : known()) ncclCommAbort(comm);",
        "for (const ncclComm_t comm : known()) static_cast<void>(comm);",
        near="cuda.nccl_exception",
    ),
    _nccl(
        "nccl_calls.cpp", "a group of calls is made after all was given up",
        "    check_given_up();\n    OpenGroup group;\n",
        "    OpenGroup group;\n",
        near="cuda.nccl.np2",
    ),
    _nccl(
        "nccl_calls.cpp", "a failure that NCCL reports is taken for work under way",
        "if (state != ncclSuccess && state != ncclInProgress) return describe_nccl_error(state, comm);",
        "if (state == ncclInternalError) return describe_nccl_error(state, comm);",
        near="cuda.nccl_remote_failure",
    ),
    _nccl(
        "nccl_calls.cpp", "nobody waits until all ranks are connected",
        '  settle(*comm, "connect all ranks");\n',
        "",
        near="cuda.nccl_late_rank",
    ),
    _nccl(
        "nccl_settings.cpp", "hosts must have interfaces of one name",
        '"NCCL_DEBUG",      "NCCL_SOCKET_IFNAME",',
        '"NCCL_DEBUG",      "NCCL_SOCKET_FAMILY",',
        near="cuda.nccl.np2",
    ),
    _nccl(
        "start_sum.cpp", "the sum at the start adds up in one place",
        "group.all_reduce(sums, values, *queue);",
        "group.all_reduce(values, values, *queue);",
        near="cuda.nccl.np2",
    ),
]
