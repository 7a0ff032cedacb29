// The guard's program, embedded in the worker's library, so that a user links one library and needs no other file.
// ROTA_GUARD_PATH is set by the build.

        .section .rodata
        .balign 64
        .globl  rota_guard_image
        .hidden rota_guard_image
        .globl  rota_guard_image_end
        .hidden rota_guard_image_end
rota_guard_image:
        .incbin ROTA_GUARD_PATH
rota_guard_image_end:
        .byte   0
        .section .note.GNU-stack, "", %progbits
