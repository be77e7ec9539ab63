# cmake -DFROM=file -DTO=file.c -DNAME=name -P embed.cmake: a file's bytes as an array of C.
file(READ ${FROM} bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR count "${digits} / 2")
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)"
                     "\\1\n" bytes "${bytes}")
file(WRITE ${TO} "#include <stddef.h>\nextern const char ${NAME}[];\nextern const size_t ${NAME}_bytes;\n"
     "const char ${NAME}[] = {\n${bytes}0};\nconst size_t ${NAME}_bytes = ${count};\n")
