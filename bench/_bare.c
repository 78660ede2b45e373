/* Starts COUNT times PROGRAM, one after another, and writes the files that a run leaves, as durably: what a run costs
   whoever does it. `bare FOLDER COUNT PROGRAM` */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void put(const char *folder, const char *name, const char *text, int durably) {
    char path[600], new_path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(new_path, sizeof new_path, "%s/%s.tmp", folder, name);
    int file = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text, strlen(text)) < 0 || rename(new_path, path)) exit(2);
    if (durably) {
        int parent = open(folder, O_RDONLY | O_CLOEXEC);
        if (fsync(file) || fsync(parent)) exit(2);
        close(parent);
    }
    close(file);
}

int main(int count, char **words) {
    char order[1024];
    if (count != 4) return 2;
    memset(order, 'x', sizeof order - 1);
    order[sizeof order - 1] = 0;
    for (int at = 0; at < atoi(words[2]); at++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s/%d", words[1], at);
        mkdir(folder, 0700);
        put(folder, "order.json", order, 1);
        put(folder, "process.json", "{\"pid\": 0}", 0);
        pid_t pid = fork();
        if (!pid) {
            char *program[] = {words[3], NULL};
            setsid();
            execve(words[3], program, environ);
            _exit(127);
        }
        put(folder, "process.json", "{\"pid\": 1}", 0);
        put(folder, "started", "", 0);
        int status;
        waitpid(pid, &status, 0);
        put(folder, "exit.json", "{\"state\": 2, \"exit_code\": 0}", 1);
    }
    return 0;
}
