# Files as C arrays, in a source file that is made at build time.
#
# mc_embed_files(OUT.c HEADER FILE...): "ui/app.js" becomes mc_file_app_js and mc_file_app_js_len,
# which HEADER declares.
#
# The file is also the script that does it: cmake -DOUT=.. -DHEADER=.. -DFILES=a|b -P this file.

if(CMAKE_SCRIPT_MODE_FILE)
  set(text "/* Made by cmake/EmbedFiles.cmake. */\n#include \"${HEADER}\"\n")
  string(REPLACE "|" ";" FILES "${FILES}")
  foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} name)
    file(READ ${file} hex HEX)
    if(hex STREQUAL "")
      message(FATAL_ERROR "${file} is empty")
    endif()
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
    string(APPEND text "\nconst unsigned char mc_file_${name}[] = {\n${bytes}\n};\n"
      "const size_t mc_file_${name}_len = sizeof(mc_file_${name});\n")
  endforeach()
  file(WRITE ${OUT} "${text}")
  return()
endif()

set(MC_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(mc_embed_files out header)
  string(REPLACE ";" "|" joined "${ARGN}")
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DHEADER=${header} -DFILES=${joined}
      -P ${MC_EMBED_SCRIPT}
    DEPENDS ${ARGN} ${MC_EMBED_SCRIPT}
    COMMENT "Embedding files in ${out}"
    VERBATIM)
endfunction()
