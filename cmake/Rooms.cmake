# One static library per room of lib/. The DEPENDS lists are the table that tests/source/include_direction.py checks
# the include lines against.

add_library(gpt_options INTERFACE)
# -Wno-restrict: g++ 12 wrongly warns of std::string's operator+ when it inlines it (GCC bug 105651).
set(GPT_CXX_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -Wno-restrict)
target_compile_options(gpt_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${GPT_CXX_WARNINGS}>")
if(GPT_WERROR)
  target_compile_options(gpt_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(GPT_SANITIZE)
  target_compile_options(gpt_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GPT_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(gpt_options INTERFACE -fsanitize=${GPT_SANITIZE})
endif()

# gpt_precompile(TARGET HEADER...): reads these headers once for all of the target's sources, where GPT_PRECOMPILE says
# so. Not where users build: a source that lacks an include would compile with it.
function(gpt_precompile target)
  if(GPT_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# gpt_room(NAME [DEPENDS room...] [LIBRARIES target...] SOURCES file...)
function(gpt_room name)
  cmake_parse_arguments(room "" "" "DEPENDS;LIBRARIES;SOURCES" ${ARGN})
  add_library(gpt_${name} STATIC ${room_SOURCES})
  add_library(gpt::${name} ALIAS gpt_${name})
  target_include_directories(gpt_${name} PUBLIC "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../lib")
  target_link_libraries(gpt_${name} PRIVATE gpt_options)
  foreach(dependency IN LISTS room_DEPENDS)
    target_link_libraries(gpt_${name} PUBLIC gpt::${dependency})
  endforeach()
  target_link_libraries(gpt_${name} PUBLIC ${room_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY gpt_rooms ${name})
endfunction()
