/* MySQL up to 5.7, and MariaDB: include/probes_mysql.d.base, and dev.mysql.com/doc/refman/5.7/en/dba-dtrace-server.html. */
provider mysql {
	probe connection__start(unsigned long id, char *user, char *host);
	probe connection__done(int status, unsigned long id);
	probe command__start(unsigned long id, int command, char *user, char *host);
	probe command__done(int status);
	probe query__start(char *query, unsigned long id, char *database, char *user, char *host);
	probe query__done(int status);
	probe query__parse__start(char *query);
	probe query__parse__done(int status);
	probe query__cache__hit(char *query, unsigned long rows);
	probe query__cache__miss(char *query);
	probe query__exec__start(char *query, unsigned long id, char *database, char *user, char *host, int type);
	probe query__exec__done(int status);
	probe read__row__start(char *database, char *table, int scan);
	probe read__row__done(int status);
	probe filesort__start(char *database, char *table);
	probe filesort__done(int status, unsigned long rows);
	probe insert__row__start(char *database, char *table);
	probe insert__row__done(int status);
	probe update__row__start(char *database, char *table);
	probe update__row__done(int status);
	probe delete__row__start(char *database, char *table);
	probe delete__row__done(int status);
	probe index__read__row__start(char *database, char *table);
	probe index__read__row__done(int status);
	probe handler__rdlock__start(char *database, char *table);
	probe handler__rdlock__done(int status);
	probe handler__wrlock__start(char *database, char *table);
	probe handler__wrlock__done(int status);
	probe handler__unlock__start(char *database, char *table);
	probe handler__unlock__done(int status);
	probe select__start(char *query);
	probe select__done(int status, unsigned long rows);
	probe insert__start(char *query);
	probe insert__done(int status, unsigned long rows);
	probe insert__select__start(char *query);
	probe insert__select__done(int status, unsigned long rows);
	probe delete__start(char *query);
	probe delete__done(int status, unsigned long rows);
	probe multi__delete__start(char *query);
	probe multi__delete__done(int status, unsigned long rows);
	probe update__start(char *query);
	probe update__done(int status, unsigned long matched, unsigned long changed);
	probe multi__update__start(char *query);
	probe multi__update__done(int status, unsigned long matched, unsigned long changed);
	probe net__read__start();
	probe net__read__done(int status, unsigned long bytes);
	probe net__write__start(unsigned long bytes);
	probe net__write__done(int status);
	probe keycache__read__start(char *path, unsigned long bytes, unsigned long used, unsigned long free);
	probe keycache__read__block(unsigned long bytes);
	probe keycache__read__hit();
	probe keycache__read__miss();
	probe keycache__read__done(unsigned long used, unsigned long free);
	probe keycache__write__start(char *path, unsigned long bytes, unsigned long used, unsigned long free);
	probe keycache__write__block(unsigned long bytes);
	probe keycache__write__done(unsigned long used, unsigned long free);

#pragma lbtrace pair connection__start connection__done by id
#pragma lbtrace pair command__start command__done
#pragma lbtrace pair query__start query__done
#pragma lbtrace pair query__parse__start query__parse__done
#pragma lbtrace pair query__exec__start query__exec__done
#pragma lbtrace pair read__row__start read__row__done
#pragma lbtrace pair filesort__start filesort__done
#pragma lbtrace pair insert__row__start insert__row__done
#pragma lbtrace pair update__row__start update__row__done
#pragma lbtrace pair delete__row__start delete__row__done
#pragma lbtrace pair index__read__row__start index__read__row__done
#pragma lbtrace pair handler__rdlock__start handler__rdlock__done
#pragma lbtrace pair handler__wrlock__start handler__wrlock__done
#pragma lbtrace pair handler__unlock__start handler__unlock__done
#pragma lbtrace pair select__start select__done
#pragma lbtrace pair insert__start insert__done
#pragma lbtrace pair insert__select__start insert__select__done
#pragma lbtrace pair delete__start delete__done
#pragma lbtrace pair multi__delete__start multi__delete__done
#pragma lbtrace pair update__start update__done
#pragma lbtrace pair multi__update__start multi__update__done
#pragma lbtrace pair net__read__start net__read__done
#pragma lbtrace pair net__write__start net__write__done
#pragma lbtrace pair keycache__read__start keycache__read__done
#pragma lbtrace pair keycache__write__start keycache__write__done
};
