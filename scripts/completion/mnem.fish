# fish completion for mnem: put it in ~/.config/fish/completions or
# /usr/share/fish/vendor_completions.d.
#
# The words come from the command itself (`mnem help verbs`, `mnem help options`), so that they are
# those of the version that is installed. A line there is "VERB --option" or "VERB -o", then a
# value's name, or "=" and the values themselves.

function __mnem_options
    set -l words (commandline -opc)
    set -l verb $words[2]
    set -l last $words[-1]
    set -l shown
    for line in ($words[1] help options 2>/dev/null)
        set -l parts (string split -m 2 ' ' -- $line)
        test "$parts[1]" = "$verb"; or continue
        if test "$parts[2]" = "$last"; and set -q parts[3]
            # the value of the option before: its words, or a file
            if string match -q '= *' -- $parts[3]
                string split ' ' -- (string sub -s 3 -- $parts[3])
            else if string match -q '*FILE*' -- $parts[3]
                __fish_complete_path (commandline -ct)
            end
            return
        end
        set -a shown $parts[2]
    end
    switch (commandline -ct)
        case '-*'
            printf '%s\n' $shown
        case '*'
            __fish_complete_path (commandline -ct)
    end
end

function __mnem_first
    test (count (commandline -opc)) -eq 1
end

complete -c mnem -f
complete -c mnem -n __mnem_first -a '(mnem help verbs 2>/dev/null)'
complete -c mnem -n 'not __mnem_first' -a '(__mnem_options)'
