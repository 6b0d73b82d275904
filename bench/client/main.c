/* The benchmark's client: MODE key=value..., one line of JSON on stdout, exit code 1 on failure. */
#include "bench_client.h"

#include <stdio.h>
#include <string.h>

static const struct {
        const char *name;
        void (*run)(const struct options *options);
} modes[] = {
    {"create", mode_create}, {"produce", mode_produce},       {"consume", mode_consume},
    {"rate", mode_rate},     {"partitions", mode_partitions}, {"ping", mode_ping},
};

int main(int argc, char **argv) {
        if (argc < 2)
                die("usage: client MODE key=value...");
        struct options options = options_parse(argc - 2, argv + 2);
        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
                if (strcmp(argv[1], modes[i].name) == 0) {
                        modes[i].run(&options);
                        return 0;
                }
        }
        die("unknown mode %s", argv[1]);
}
